// SPDX-License-Identifier: Apache-2.0
// What devices do to the sums and functions of the test kernels: adders of
// tensor cores, functions that are some ulps off.
#include <bit>

#include "reference/test_kernels.h"

namespace qkvet {
namespace {

// Cut off, not rounded, to a multiple of 2^exponent.
double cut(double x, int exponent) {
  return std::ldexp(std::trunc(std::ldexp(x, -exponent)), exponent);
}

// c and the products on one grid below the largest of them, added exactly, the
// sum cut off to the 24 bits of f32.
float block_sum(float c, const float* a, const float* b, int64_t stride,
                int64_t n, int extra_bits) {
  int top = std::numeric_limits<int>::min();
  const auto see = [&](double x) {
    if (x != 0) top = std::max(top, std::ilogb(x));
  };
  see(double{c});
  for (int64_t i = 0; i < n; ++i) see(double{a[i]} * double{b[i * stride]});
  if (top == std::numeric_limits<int>::min()) return 0;
  const int grid = top - 23 - extra_bits;
  double sum = cut(double{c}, grid);
  for (int64_t i = 0; i < n; ++i) {
    sum += cut(double{a[i]} * double{b[i * stride]}, grid);
  }
  if (sum == 0) return 0;
  constexpr int kLeast = -149;
  const int last = std::max(std::ilogb(sum) - 23, kLeast);
  return static_cast<float>(cut(sum, last));
}

// -1 .. 1, of the bits of x alone.
double deviation(double x) {
  const auto bits = std::bit_cast<uint64_t>(x) * 0x9E3779B97F4A7C15U;
  return static_cast<double>(bits >> 40) / 0x1p23 - 1;
}

// Within so many ulps of 2^-23, of which rounding takes half a one; 1 is exact,
// as exp2(0) and 1/1 are.
float device_value(double x, int ulps) {
  if (x == 1) return 1;
  const double off = deviation(x) * (2 * ulps - 1) * 0x1p-24;
  return static_cast<float>(x * (1 + off));
}

}  // namespace

float TestRow::in_blocks(float c, const float* a, const float* b,
                         int64_t stride, int64_t n) const {
  for (int64_t i = 0; i < n; i += kernel_.block) {
    const int64_t count = std::min<int64_t>(kernel_.block, n - i);
    c = block_sum(c, a + i, b + i * stride, stride, count, kernel_.extra_bits);
  }
  return c;
}

// The denominator is a product with a column of ones.
void TestRow::add_blocks(TestPart& part, const float* summed, const float* w,
                         int64_t first, int64_t last) const {
  const int64_t count = last - first;
  const std::vector<float> ones(static_cast<size_t>(count), 1.0F);
  part.sum = in_blocks(part.sum, summed, ones.data(), 1, count);
  part.keys = in_blocks(part.keys, summed, ones.data(), 1, count);
  for (int64_t t = 0; t < dv_; ++t) {
    part.o[t] = in_blocks(part.o[t], w, &v_[first * dv_ + t], dv_, count);
  }
}

float TestRow::exponential(float x) const {
  return kernel_.fast ? device_value(std::exp(double{x}), 2) : std::exp(x);
}

float TestRow::exponential2(float x) const {
  return kernel_.fast ? device_value(std::exp2(double{x}), 2) : std::exp2(x);
}

float TestRow::inverse(float x) const {
  return kernel_.fast ? device_value(1 / double{x}, 1) : 1 / x;
}

// By a logarithm of base 2 that is 2^-22 off, in all or in proportion.
float TestRow::logarithm(float x) const {
  if (!kernel_.fast) return std::log(x);
  const double log2 = std::log2(double{x});
  const double off = std::max(1.0, std::fabs(log2)) * 0x1p-22;
  return static_cast<float>(log2 + deviation(x) * off) * kTestLn2;
}

}  // namespace qkvet
