// SPDX-License-Identifier: Apache-2.0
#include "core/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace qkvet {
namespace {

// A binary format: significand bits with the leading one, least and largest
// exponent of a normal number.
struct Format {
  int precision;
  int least;
  int largest;
};
constexpr Format kF16 = {11, -14, 15};
constexpr Format kBf16 = {8, -126, 127};

// Nearest representable value. Scaling by powers of two is exact in double,
// and rint() rounds ties to even in the default rounding mode.
double nearest(const Format& format, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.least);
  const int shift = exponent - (format.precision - 1);
  const double rounded =
      std::ldexp(std::rint(std::ldexp(value, -shift)), shift);
  const double limit = std::ldexp(1.0, format.largest + 1);
  return std::fabs(rounded) < limit
             ? rounded
             : std::copysign(std::numeric_limits<double>::infinity(), value);
}

// The bits of a value that the format represents exactly.
uint16_t encode(const Format& format, double value) {
  const int fraction_bits = format.precision - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto exponent_mask =
      static_cast<uint16_t>(((1 << (15 - fraction_bits)) - 1) << fraction_bits);
  if (std::isnan(value))
    return sign | exponent_mask |
           static_cast<uint16_t>(1 << (fraction_bits - 1));
  if (std::isinf(value)) return sign | exponent_mask;
  const double magnitude = std::fabs(value);
  const double unit = std::ldexp(1.0, format.least - fraction_bits);
  if (magnitude < std::ldexp(1.0, format.least))  // zero and subnormal
    return sign | static_cast<uint16_t>(magnitude / unit);
  const int exponent = std::ilogb(magnitude);
  const auto significand = static_cast<uint16_t>(
      std::ldexp(magnitude, fraction_bits - exponent));  // with leading one
  const auto biased = static_cast<uint16_t>(exponent - format.least + 1);
  return static_cast<uint16_t>(sign | biased << fraction_bits |
                               (significand & ((1 << fraction_bits) - 1)));
}

double decode(const Format& format, uint16_t bits) {
  const int fraction_bits = format.precision - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int biased = (bits & 0x7FFF) >> fraction_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (biased == (1 << (15 - fraction_bits)) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (biased == 0)
    return sign * std::ldexp(fraction, format.least - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits),
                           biased - 1 + format.least - fraction_bits);
}

}  // namespace

uint16_t f16_from_double(double value) {
  return encode(kF16, nearest(kF16, value));
}
double f16_to_double(uint16_t bits) { return decode(kF16, bits); }
uint16_t bf16_from_double(double value) {
  return encode(kBf16, nearest(kBf16, value));
}
double bf16_to_double(uint16_t bits) { return decode(kBf16, bits); }

double round_to(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::kF16:
      return nearest(kF16, value);
    case Dtype::kBf16:
      return nearest(kBf16, value);
    case Dtype::kF32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 0x1p-11;
    case Dtype::kBf16:
      return 0x1p-8;
    case Dtype::kF32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

double underflow_error(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 0x1p-25;
    case Dtype::kBf16:
      return 0x1p-134;
    case Dtype::kF32:
      return 0x1p-150;
    default:
      return 0x1p-1074;  // half of it is no double
  }
}

}  // namespace qkvet
