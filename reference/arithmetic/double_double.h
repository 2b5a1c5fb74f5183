// SPDX-License-Identifier: Apache-2.0
// Numbers of about 106 bits as unevaluated sums hi + lo, |lo| <= ulp(hi)/2.
// Algorithms: Dekker, "A floating-point technique for extending the available
// precision", 1971 (splitting, product); Knuth, TAOCP 2, 4.2.2 (sum). They are
// exact only if no product is contracted into an FMA and nothing is
// reassociated: this header refuses to be compiled with fast-math.
#ifndef QKVET_REFERENCE_ARITHMETIC_DOUBLE_DOUBLE_H_
#define QKVET_REFERENCE_ARITHMETIC_DOUBLE_DOUBLE_H_

#include <array>
#include <cmath>
#include <limits>

#include "core/base/floors.h"
#include "core/base/power_of_two.h"

#ifdef __FAST_MATH__
#error "double-double arithmetic needs the rounding that fast-math removes"
#endif

namespace qkvet::reference {

struct DoubleDouble {
  double hi = 0;
  double lo = 0;

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double value) : hi(value) {}  // NOLINT: a number
  constexpr DoubleDouble(double high, double low) : hi(high), lo(low) {}
};

// a + b = hi + lo exactly, if |a| >= |b| or a = 0.
constexpr DoubleDouble quick_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b = hi + lo exactly.
constexpr DoubleDouble two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// a = hi + lo exactly, each of at most 26 bits.
constexpr DoubleDouble split_halves(double a) {
  constexpr double kSplitter = 0x1p27 + 1;  // 27 = ceil(53 / 2)
  const double t = kSplitter * a;
  const double hi = t - (t - a);
  return {hi, a - hi};
}

// a * b = hi + lo exactly, unless something over- or underflows.
constexpr DoubleDouble two_product(double a, double b) {
  const double product = a * b;
  const DoubleDouble x = split_halves(a);
  const DoubleDouble y = split_halves(b);
  const double rest =
      ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
  return {product, rest};
}

constexpr DoubleDouble operator-(DoubleDouble a) { return {-a.hi, -a.lo}; }

constexpr DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = two_sum(a.hi, b.hi);
  const DoubleDouble low = two_sum(a.lo, b.lo);
  const DoubleDouble once = quick_two_sum(high.hi, high.lo + low.hi);
  return quick_two_sum(once.hi, once.lo + low.lo);
}

constexpr DoubleDouble operator-(DoubleDouble a, DoubleDouble b) {
  return a + -b;
}

constexpr DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = two_product(a.hi, b.hi);
  return quick_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

// Long division, three quotient digits.
constexpr DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.hi / b.hi;
  DoubleDouble rest = a - b * first;
  const double second = rest.hi / b.hi;
  rest = rest - b * second;
  const double third = rest.hi / b.hi;
  return quick_two_sum(first, second) + third;
}

constexpr bool operator<(DoubleDouble a, DoubleDouble b) {
  return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

// Exact, unless it underflows.
inline DoubleDouble times_power_of_two(DoubleDouble a, int power) {
  return {qkvet::times_power_of_two(a.hi, power),
          qkvet::times_power_of_two(a.lo, power)};
}

// ln 2 to 106 bits.
inline constexpr DoubleDouble kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// The first omitted term, r^11/11! with |r| <= ln2/2/256, is below 2^-129.
inline constexpr int kExpTerms = 10;

// 1/n!, rounded to 106 bits by the compiler.
inline constexpr auto kInverseFactorials = [] {
  std::array<DoubleDouble, kExpTerms + 1> inverse;
  inverse[0] = 1.0;
  for (int n = 1; n <= kExpTerms; ++n)
    inverse[n] = inverse[n - 1] / static_cast<double>(n);
  return inverse;
}();

// x = k ln 2 + r, and p = exp(r) - 1 = (1 + expm1(r / 256))^256 - 1; the square
// of 1 + p is taken as 1 + (2p + p^2), which keeps the low bits of a small p.
// The eight doublings leave an error of about 2^8 * 2^-104 = 2^-96.
struct ReducedExp {
  double k = 0;
  DoubleDouble p;
};

inline ReducedExp reduced_exp(DoubleDouble x, int terms, DoubleDouble ln2) {
  constexpr int kDoublings = 8;
  constexpr double kPart = 0x1p-8;  // one over two to the doublings
  constexpr int kPairedTerms = 5;
  ReducedExp e;
  e.k = std::nearbyint(x.hi / ln2.hi);
  const DoubleDouble rest = x - ln2 * e.k;
  const DoubleDouble r{rest.hi * kPart, rest.lo * kPart};
  // From the fifth on, terms are below 2^-45 of the first: doubles hold them to
  // 2^-98 of the sum.
  int n = terms;
  double rest_of_series = kInverseFactorials[n].hi;
  for (; n > kPairedTerms; --n)
    rest_of_series = kInverseFactorials[n - 1].hi + r.hi * rest_of_series;
  DoubleDouble series = rest_of_series;
  for (; n > 1; --n) series = kInverseFactorials[n - 1] + r * series;
  e.p = r * series;
  for (int i = 0; i < kDoublings; ++i)
    e.p = DoubleDouble(2 * e.p.hi, 2 * e.p.lo) + e.p * e.p;
  return e;
}

// exp(x) = 2^k * (1 + p).
inline DoubleDouble dd_exp(DoubleDouble x, int terms = kExpTerms,
                           DoubleDouble ln2 = kLn2) {
  // Beyond these, exp is below the least double or above the largest.
  constexpr double kLowest = -746;
  constexpr double kHighest = 709.78;
  if (std::isnan(x.hi)) return x;
  if (x.hi < kLowest) return 0.0;
  if (x.hi > kHighest) return std::numeric_limits<double>::infinity();
  const ReducedExp e = reduced_exp(x, terms, ln2);
  return times_power_of_two(DoubleDouble(1.0) + e.p, static_cast<int>(e.k));
}

// tanh(x) = z / (z + 2) with z = exp(2x) - 1 = 2^k p + (2^k - 1), x >= 0: near
// 0 k is 0 and z is p, so that nothing cancels. From 60 on, 1 - tanh is below
// 2^-170.
inline DoubleDouble dd_tanh(DoubleDouble x) {
  constexpr double kOne = 60;
  if (std::isnan(x.hi)) return x;
  if (x.hi < 0) return -dd_tanh(-x);
  if (x.hi > kOne) return 1.0;
  const ReducedExp e = reduced_exp(times_power_of_two(x, 1), kExpTerms, kLn2);
  const int k = static_cast<int>(e.k);
  const DoubleDouble z = times_power_of_two(e.p, k) +
                         (times_power_of_two(1.0, k) - DoubleDouble(1.0));
  return z / (z + DoubleDouble(2.0));
}

// ln(x), x > 0, by Newton's step y += x exp(-y) - 1, which squares the error.
// It starts from e ln2 + 2 atanh(z), z = (f-1)/(f+1), x = 2^e f, |z| < 0.18, of
// which five terms leave 2 z^11 / 11 < 2^-29; two steps reach 2^-100.
inline DoubleDouble dd_log(DoubleDouble x) {
  constexpr int kSteps = 2;
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  int exponent = 0;
  double fraction = std::frexp(x.hi, &exponent);
  if (fraction < kSqrtHalf) {
    fraction *= 2;
    --exponent;
  }
  const double z = (fraction - 1) / (fraction + 1);
  const double z2 = z * z;
  const double atanh_z =
      z * (1 + z2 * (1. / 3 + z2 * (1. / 5 + z2 * (1. / 7 + z2 / 9))));
  DoubleDouble y =
      kLn2 * static_cast<double>(exponent) + DoubleDouble(2 * atanh_z);
  for (int i = 0; i < kSteps; ++i) {
    y = y + (x * dd_exp(-y) - DoubleDouble(1.0));
  }
  return y;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_DOUBLE_DOUBLE_H_
