// SPDX-License-Identifier: Apache-2.0
// fp8 e4m3 in the variant without infinities ("fn"; Micikevicius et al. 2022):
// 4 bits of exponent with bias 7, 3 of fraction, NaN if all of them are set,
// largest number 448, subnormals in steps of 2^-9.
#ifndef QKVET_IMPL_CALL_FP8_H_
#define QKVET_IMPL_CALL_FP8_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace qkvet::impl {

inline constexpr float kLargestE4m3 = 448;
inline constexpr uint8_t kNanE4m3 = 0x7f;

// Exact.
constexpr float e4m3_to_f32(uint8_t bits) {
  constexpr uint8_t kLeastNormal = 0x08;
  constexpr int kFractionShift = 23 - 3;
  constexpr uint32_t kBias = (127u - 7u) << 23;
  const uint32_t sign = (bits & 0x80u) << 24;
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == kNanE4m3) {
    return std::bit_cast<float>(sign | 0x7fc00000u);
  }
  if (magnitude < kLeastNormal) {  // steps of 2^-9, normal in f32
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << kFractionShift) + kBias));
}

// To nearest, ties to even; numbers above 448 and infinities saturate.
inline uint8_t f64_to_e4m3(double value) {
  constexpr int kLeastExponent = 1 - 7;  // of a normal number
  constexpr int kFractionBits = 3;
  if (std::isnan(value)) {
    return kNanE4m3;
  }
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
  const double magnitude = std::fabs(value);
  if (magnitude >= static_cast<double>(kLargestE4m3)) {
    return sign | (kNanE4m3 - 1);
  }
  int exponent = kLeastExponent;
  if (magnitude >= std::ldexp(1.0, kLeastExponent)) {
    exponent = std::ilogb(magnitude);
  }
  // In steps of the last place: below 8 if it is subnormal, else 8 to 16. 16
  // carries into the exponent, as the bits do.
  const double steps = std::ldexp(magnitude, kFractionBits - exponent);
  const auto rounded = static_cast<int>(std::nearbyint(steps));
  const int above = exponent - kLeastExponent;
  return static_cast<uint8_t>(sign | ((above << kFractionBits) + rounded));
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_FP8_H_
