// SPDX-License-Identifier: Apache-2.0
// Powers of two without a function call, where they are normal numbers: bounds
// need one per key.
#ifndef QKVET_CORE_BASE_POWER_OF_TWO_H_
#define QKVET_CORE_BASE_POWER_OF_TWO_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace qkvet {

// x 2^n, rounded once.
inline double times_power_of_two(double x, int n) {
  constexpr int kBias = 1023;
  constexpr int kFractionBits = 52;
  const bool normal = n > -kBias && n <= kBias;
  if (!normal) return std::ldexp(x, n);
  return x * std::bit_cast<double>(static_cast<uint64_t>(n + kBias)
                                   << kFractionBits);
}

inline double power_of_two(int n) { return times_power_of_two(1, n); }

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_POWER_OF_TWO_H_
