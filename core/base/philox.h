// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), section 3.3. A block
// of four words is a pure function of (counter, key): the data of a Case is the
// same for every compiler, thread count and language, and an element keeps its
// value when an extent shrinks.
#ifndef QKVET_CORE_BASE_PHILOX_H_
#define QKVET_CORE_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace qkvet {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter philox4x32(PhiloxCounter x, PhiloxKey key) {
  constexpr int kRounds = 10;
  constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * x[0];
    const uint64_t p1 = uint64_t{kMultiplier1} * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ key[0],
         static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ key[1],
         static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return x;
}

inline PhiloxKey philox_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// One 64-bit number out of (seed, a, b, c): for choices, not for tensor data.
inline uint64_t philox_u64(uint64_t seed, uint32_t a, uint32_t b, uint32_t c) {
  // The last counter word keeps this stream apart from all tensors': theirs
  // has a batch member below 2^28 - 1 in its low bits (core/case/recipe.cpp).
  const PhiloxCounter x = philox4x32({a, b, c, 0xFFFFFFFF}, philox_key(seed));
  return x[0] | uint64_t{x[1]} << 32;
}

// 0 .. n - 1, decided by the upper 32 bits of such a number.
inline int64_t below(uint64_t bits, int64_t n) {
  return static_cast<int64_t>((bits >> 32) * static_cast<uint64_t>(n) >> 32);
}

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_PHILOX_H_
