// SPDX-License-Identifier: Apache-2.0
// __half and __nv_bfloat16 of CUDA's cuda_fp16.h and cuda_bf16.h on the CPU.
// Every operation rounds once, to nearest, ties to even, as on a device: sums,
// products and quotients of two values are computed in f32, which is more than
// twice as wide (Figueroa, "When is double rounding innocuous?", 1995).
#ifndef QKVET_IMPL_CUDA_SIMT_CUDA_HALF_TYPES_H_
#define QKVET_IMPL_CUDA_SIMT_CUDA_HALF_TYPES_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "../simt.h"

namespace simt {

// `fraction` explicit bits of the significand, exponents of normal numbers from
// `least`, the largest below 2^(1 - least).
template <int fraction, int least>
struct Format {
  static constexpr int kFraction = fraction, kLeast = least;

  // Rounds once.
  static uint16_t bits_of(double value) {
    constexpr uint16_t kInfinity =
        static_cast<uint16_t>(((1 << (15 - fraction)) - 1) << fraction);
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(value);
    if (std::isnan(value)) return 0x7fff;
    if (std::isinf(value)) return sign | kInfinity;
    if (size == 0) return sign;
    // The number of steps of its binade: a carry goes into the exponent.
    const int exponent = std::max(std::ilogb(size), least);
    const double steps = std::nearbyint(std::ldexp(size, fraction - exponent));
    const int64_t bits = static_cast<int64_t>(steps) +
                         (static_cast<int64_t>(exponent - least) << fraction);
    return sign | static_cast<uint16_t>(std::min<int64_t>(bits, kInfinity));
  }
  static float value_of(uint16_t bits) {
    const int exponent = (bits & 0x7fff) >> fraction;
    const int rest = bits & ((1 << fraction) - 1);
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    if (exponent == (1 << (15 - fraction)) - 1)
      return rest != 0 ? std::numeric_limits<float>::quiet_NaN()
                       : sign * std::numeric_limits<float>::infinity();
    return exponent == 0
               ? sign * std::ldexp(static_cast<float>(rest), least - fraction)
               : sign * std::ldexp(static_cast<float>(rest + (1 << fraction)),
                                   exponent - 1 + least - fraction);
  }
};
using F16 = Format<10, -14>;
using Bf16 = Format<7, -126>;

template <class Format>
struct HalfFloat {
  uint16_t bits;

  HalfFloat() = default;
  // NOLINTBEGIN(google-explicit-constructor): those of CUDA
  HalfFloat(float x) : bits(Format::bits_of(x)) {}
  HalfFloat(double x) : bits(Format::bits_of(x)) {}
  HalfFloat(int x) : bits(Format::bits_of(x)) {}
  HalfFloat(unsigned x) : bits(Format::bits_of(x)) {}
  HalfFloat(long x) : bits(Format::bits_of(static_cast<double>(x))) {}
  HalfFloat(unsigned long x) : bits(Format::bits_of(static_cast<double>(x))) {}
  operator float() const { return Format::value_of(bits); }
  // NOLINTEND(google-explicit-constructor)

  static HalfFloat from_bits(uint16_t bits) {
    HalfFloat x;
    x.bits = bits;
    return x;
  }
  friend HalfFloat operator+(HalfFloat a, HalfFloat b) {
    return float(a) + float(b);
  }
  friend HalfFloat operator-(HalfFloat a, HalfFloat b) {
    return float(a) - float(b);
  }
  friend HalfFloat operator*(HalfFloat a, HalfFloat b) {
    return float(a) * float(b);
  }
  friend HalfFloat operator/(HalfFloat a, HalfFloat b) {
    return float(a) / float(b);
  }
  friend HalfFloat operator-(HalfFloat a) {
    return from_bits(static_cast<uint16_t>(a.bits ^ 0x8000));
  }
  HalfFloat& operator+=(HalfFloat b) { return *this = *this + b; }
  HalfFloat& operator-=(HalfFloat b) { return *this = *this - b; }
  HalfFloat& operator*=(HalfFloat b) { return *this = *this * b; }
  HalfFloat& operator/=(HalfFloat b) { return *this = *this / b; }
  friend bool operator==(HalfFloat a, HalfFloat b) {
    return float(a) == float(b);
  }
  friend bool operator!=(HalfFloat a, HalfFloat b) {
    return float(a) != float(b);
  }
  friend bool operator<(HalfFloat a, HalfFloat b) {
    return float(a) < float(b);
  }
  friend bool operator>(HalfFloat a, HalfFloat b) {
    return float(a) > float(b);
  }
  friend bool operator<=(HalfFloat a, HalfFloat b) {
    return float(a) <= float(b);
  }
  friend bool operator>=(HalfFloat a, HalfFloat b) {
    return float(a) >= float(b);
  }
};

// The product of two such numbers is exact in f64. Their sum with a third one
// is rounded to odd, so that the rounding after it is the only one (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
template <class Format>
HalfFloat<Format> fused(HalfFloat<Format> a, HalfFloat<Format> b,
                        HalfFloat<Format> c) {
  const double product = double(float(a)) * double(float(b));
  const double addend = float(c);
  double sum = product + addend;
  if (!std::isfinite(sum)) return sum;
  const double other = sum - product;
  const double error = (product - (sum - other)) + (addend - other);
  uint64_t bits;
  std::memcpy(&bits, &sum, sizeof bits);
  if (error != 0 && (bits & 1) == 0)
    sum = std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
  return sum;
}

template <class Format>
struct alignas(4) HalfPair {
  HalfFloat<Format> x, y;

  HalfPair() = default;
  HalfPair(HalfFloat<Format> a, HalfFloat<Format> b) : x(a), y(b) {}
  friend HalfPair operator+(HalfPair a, HalfPair b) {
    return {a.x + b.x, a.y + b.y};
  }
  friend HalfPair operator-(HalfPair a, HalfPair b) {
    return {a.x - b.x, a.y - b.y};
  }
  friend HalfPair operator*(HalfPair a, HalfPair b) {
    return {a.x * b.x, a.y * b.y};
  }
  friend HalfPair operator/(HalfPair a, HalfPair b) {
    return {a.x / b.x, a.y / b.y};
  }
  HalfPair& operator+=(HalfPair b) { return *this = *this + b; }
  HalfPair& operator*=(HalfPair b) { return *this = *this * b; }
};

}  // namespace simt

// Functions that both types have under one name.
#define SIMT_OF_BOTH(result, name, body)                    \
  template <class F>                                        \
  result name(simt::HalfFloat<F> a, simt::HalfFloat<F> b) { \
    return body;                                            \
  }
SIMT_OF_BOTH(simt::HalfFloat<F>, __hadd, a + b)
SIMT_OF_BOTH(simt::HalfFloat<F>, __hsub, a - b)
SIMT_OF_BOTH(simt::HalfFloat<F>, __hmul, a* b)
SIMT_OF_BOTH(simt::HalfFloat<F>, __hdiv, a / b)
SIMT_OF_BOTH(simt::HalfFloat<F>, __hmax, std::fmax(float(a), float(b)))
SIMT_OF_BOTH(simt::HalfFloat<F>, __hmin, std::fmin(float(a), float(b)))
SIMT_OF_BOTH(bool, __heq, a == b)
SIMT_OF_BOTH(bool, __hne, a != b)
SIMT_OF_BOTH(bool, __hgt, a > b)
SIMT_OF_BOTH(bool, __hge, a >= b)
SIMT_OF_BOTH(bool, __hlt, a < b)
SIMT_OF_BOTH(bool, __hle, a <= b)
#undef SIMT_OF_BOTH

#define SIMT_OF_PAIRS(name, body)                                    \
  template <class F>                                                 \
  simt::HalfPair<F> name(simt::HalfPair<F> a, simt::HalfPair<F> b) { \
    return body;                                                     \
  }
SIMT_OF_PAIRS(__hadd2, a + b)
SIMT_OF_PAIRS(__hsub2, a - b)
SIMT_OF_PAIRS(__hmul2, a* b)
SIMT_OF_PAIRS(__h2div, a / b)
#undef SIMT_OF_PAIRS

template <class F>
simt::HalfFloat<F> __hfma(simt::HalfFloat<F> a, simt::HalfFloat<F> b,
                          simt::HalfFloat<F> c) {
  return simt::fused(a, b, c);
}
template <class F>
simt::HalfPair<F> __hfma2(simt::HalfPair<F> a, simt::HalfPair<F> b,
                          simt::HalfPair<F> c) {
  return {simt::fused(a.x, b.x, c.x), simt::fused(a.y, b.y, c.y)};
}
template <class F>
simt::HalfFloat<F> __hneg(simt::HalfFloat<F> a) {
  return -a;
}
template <class F>
simt::HalfFloat<F> __habs(simt::HalfFloat<F> a) {
  return std::fabs(float(a));
}
template <class F>
bool __hisnan(simt::HalfFloat<F> a) {
  return std::isnan(float(a));
}
template <class F>
simt::HalfFloat<F> hexp(simt::HalfFloat<F> a) {
  return std::exp(float(a));
}
template <class F>
float __low2float(simt::HalfPair<F> a) {
  return a.x;
}
template <class F>
float __high2float(simt::HalfPair<F> a) {
  return a.y;
}

#endif  // QKVET_IMPL_CUDA_SIMT_CUDA_HALF_TYPES_H_
