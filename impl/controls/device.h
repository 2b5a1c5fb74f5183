// SPDX-License-Identifier: Apache-2.0
// Sums and functions of devices: adders of tensor cores, functions that are
// some ulps off.
#ifndef QKVET_IMPL_CONTROLS_DEVICE_H_
#define QKVET_IMPL_CONTROLS_DEVICE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace qkvet::impl {

inline constexpr int kLargestBlock = 16;

// By bits instead of ldexp() and ilogb(), which took a tenth of the time of all
// controls: arguments are finite, not 0 and far from the ends of double's
// exponents (products of two numbers of f32).
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}
inline int exponent_of(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7FF) - 1023;
}

// Truncated, not rounded, to a multiple of 2^exponent: towards 0, or down.
inline double cut_off(double x, int exponent, bool down) {
  const double steps = x * power_of_two(-exponent);
  return (down ? std::floor(steps) : std::trunc(steps)) *
         power_of_two(exponent);
}

// c and n products on one grid below the largest of them, added exactly; the
// sum is truncated to the 24 bits of f32. A product is exact in double.
inline float block_sum(float c, const double* products, int n, int extra_bits,
                       bool down) {
  constexpr int kBits = 23, kLeast = -149;
  int top = std::numeric_limits<int>::min();
  double plain = c;
  for (int i = 0; i < n; ++i) {
    plain += products[i];
    top = products[i] != 0 ? std::max(top, exponent_of(products[i])) : top;
  }
  top = c != 0 ? std::max(top, exponent_of(double{c})) : top;
  if (!std::isfinite(plain)) {
    return static_cast<float>(plain);
  }
  if (top == std::numeric_limits<int>::min()) {
    return 0;
  }
  const int grid = top - kBits - extra_bits;
  double sum = cut_off(double{c}, grid, down);
  for (int i = 0; i < n; ++i) {
    sum += cut_off(products[i], grid, down);
  }
  if (sum == 0) {
    return 0;
  }
  return static_cast<float>(
      cut_off(sum, std::max(exponent_of(sum) - kBits, kLeast), down));
}

// -1 .. 1, a function of the bits of x only.
inline double device_deviation(double x) {
  const auto bits = std::bit_cast<uint64_t>(x) * 0x9E3779B97F4A7C15U;
  return static_cast<double>(bits >> 40) / 0x1p23 - 1;
}

// Within this many ulps of 2^-23, including half an ulp of rounding; 1 is
// exact, as for exp2(0) and 1/1.
inline float device_value(double x, int ulps) {
  if (x == 1) {
    return 1;
  }
  const double off = device_deviation(x) * (2 * ulps - 1) * 0x1p-24;
  return static_cast<float>(x * (1 + off));
}

// The base-2 logarithm of a device: an error of 2^-22, absolute or relative.
inline float device_log2(float x) {
  const double log2 = std::log2(double{x});
  const double off = std::fmax(1.0, std::fabs(log2)) * 0x1p-22;
  return static_cast<float>(log2 + device_deviation(x) * off);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_DEVICE_H_
