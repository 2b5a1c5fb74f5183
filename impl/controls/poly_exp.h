// SPDX-License-Identifier: Apache-2.0
// Functions as polynomials. exp, of degree 5 or 3, on [-ln 2 / 2, ln 2 / 2]
// with the power of two set in the exponent, in plain multiplications and
// additions:
//
//   n = round(x / ln 2),  r = x - n ln 2 in two parts (Cody and Waite),
//   exp(x) = 2^n (1 + r + r^2 P(r)),  P of degree 3, minimax in relative error
//
// Below -87 the result is 0, so that 2^n is always a normal number. Error: 3.06
// units of 2^-24, measured over the floats in [-87, 0] (poly_exp_test.cpp).
#ifndef QKVET_IMPL_CONTROLS_POLY_EXP_H_
#define QKVET_IMPL_CONTROLS_POLY_EXP_H_

#include <bit>
#include <cstdint>

namespace qkvet::impl {

// 2^n exp(r) for `of` such that of(r) is about exp(r). For x <= 0 or NaN.
template <class OfRest>
float exp_by_parts(float x, const OfRest& of) {
  constexpr float kLowest = -87.0f;
  constexpr float kInverseLn2 = 1.44269504f;
  constexpr float kRoundToInteger = 0x1.8p23f;  // adding it rounds
  constexpr float kLn2High = 0.693359375f;      // 10 bits: its product with n
  constexpr float kLn2Low = -2.12194440e-4f;    // is exact
  constexpr int kMantissaBits = 23;
  if (x < kLowest) {
    return 0;
  }
  const float n = (x * kInverseLn2 + kRoundToInteger) - kRoundToInteger;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  const float y = of(r);
  if (!(y > 0)) {
    return y;  // NaN
  }
  const auto exponent = static_cast<uint32_t>(static_cast<int32_t>(n));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) +
                              (exponent << kMantissaBits));
}

inline float poly_exp(float x) {
  // Relative error of the exact polynomial: 1.83 units of 2^-24.
  static constexpr float kP[] = {0x1.fffdf2p-2f, 0x1.5557bap-3f, 0x1.572e86p-5f,
                                 0x1.106080p-7f};
  return exp_by_parts(x, [](float r) {
    const float p = ((kP[3] * r + kP[2]) * r + kP[1]) * r + kP[0];
    return (p * r) * r + r + 1;
  });
}

// Relative error: 7.50e-5, measured over the same floats; exp(0) is 7.2e-5
// below 1.
inline float coarse_exp(float x) {
  static constexpr float kP[] = {0x1.fff68ep-1f, 0x1.000ac8p+0f, 0x1.028b30p-1f,
                                 0x1.534972p-3f};
  return exp_by_parts(
      x, [](float r) { return ((kP[3] * r + kP[2]) * r + kP[1]) * r + kP[0]; });
}

// ln x as n ln 2 and a polynomial of degree 3 in m - 1, x = 2^n m with m in
// [sqrt(1/2), sqrt(2)), minimax. Off by 4.42e-4, ln 1 by 4.04e-4; beyond e by
// less than that in proportion. For positive normal numbers that are finite.
inline float coarse_log(float x) {
  static constexpr float kP[] = {0x1.a7ed90p-12f, 0x1.0085f4p+0f,
                                 -0x1.0e0f5cp-1f, 0x1.3db1f4p-2f};
  constexpr float kLogOfTwo = 0.693147181f;
  constexpr uint32_t kRootOfHalf = 0x3f3504f3u;
  constexpr int kMantissaBits = 23;
  const auto bits = std::bit_cast<uint32_t>(x);
  const int32_t n = static_cast<int32_t>(bits - kRootOfHalf) >> kMantissaBits;
  const float t =
      std::bit_cast<float>(bits - (static_cast<uint32_t>(n) << kMantissaBits)) -
      1;
  return static_cast<float>(n) * kLogOfTwo +
         (((kP[3] * t + kP[2]) * t + kP[1]) * t + kP[0]);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_POLY_EXP_H_
