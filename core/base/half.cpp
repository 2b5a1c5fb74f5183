// SPDX-License-Identifier: Apache-2.0
#include "core/base/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/stored_numbers.h"

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

// Inlined, so that the format is constant: each number of a case is rounded.
#define QKVET_OF_FORMAT [[gnu::always_inline]] inline

constexpr int kDoubleFraction = 52;  // bits
constexpr int kDoubleBias = 1023;

// The unbiased exponent of a normal double; far below every format for zero
// and subnormal ones, far above for infinity and NaN.
int exponent_of(uint64_t bits) {
  return static_cast<int>((bits >> kDoubleFraction) & 0x7FF) - kDoubleBias;
}

// Nearest representable value. Normal numbers are rounded in their bits, a
// carry into the exponent included; the others by scaling, which is exact in
// double, and rint(), which rounds ties to even in the default rounding mode.
QKVET_OF_FORMAT double nearest(const Format& format, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const int power = exponent_of(bits);
  if (power >= format.least && power < format.largest) {
    const int drop = kDoubleFraction + 1 - format.precision;
    const uint64_t half = (uint64_t{1} << (drop - 1)) - 1;
    const uint64_t rounded = bits + half + ((bits >> drop) & 1);
    return std::bit_cast<double>(rounded >> drop << drop);
  }
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
QKVET_OF_FORMAT uint16_t encode(const Format& format, double value) {
  const int fraction_bits = format.precision - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto bits = std::bit_cast<uint64_t>(value);
  const int power = exponent_of(bits);
  if (power >= format.least && power <= format.largest) {
    const auto biased_power = static_cast<uint64_t>(power - format.least + 1)
                              << fraction_bits;
    const uint64_t fraction = (bits & ((uint64_t{1} << kDoubleFraction) - 1)) >>
                              (kDoubleFraction - fraction_bits);
    return static_cast<uint16_t>(sign | biased_power | fraction);
  }
  const auto exponent_mask =
      static_cast<uint16_t>(((1 << (15 - fraction_bits)) - 1) << fraction_bits);
  if (std::isnan(value))
    return sign | exponent_mask |
           static_cast<uint16_t>(1 << (fraction_bits - 1));
  if (std::isinf(value)) return sign | exponent_mask;
  const double magnitude = std::fabs(value);
  // Zero and subnormal: a multiple of the least unit.
  const double unit = std::ldexp(1.0, format.least - fraction_bits);
  return sign | static_cast<uint16_t>(magnitude / unit);
}

QKVET_OF_FORMAT double decode(const Format& format, uint16_t bits) {
  const int fraction_bits = format.precision - 1;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int biased = (bits & 0x7FFF) >> fraction_bits;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (biased == (1 << (15 - fraction_bits)) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (biased != 0) {
    const auto power = static_cast<uint64_t>(biased) +
                       static_cast<uint64_t>(kDoubleBias - 1 + format.least);
    const uint64_t sign_bit = bits & 0x8000u;
    const auto significand = static_cast<uint64_t>(fraction);
    return std::bit_cast<double>(sign_bit << 48 | power << kDoubleFraction |
                                 significand
                                     << (kDoubleFraction - fraction_bits));
  }
  return sign * std::ldexp(fraction, format.least - fraction_bits);
}

template <class Encode, class Decode>
void store_each(std::span<double> numbers, std::vector<std::byte>& bytes,
                Encode encode, Decode decode) {
  bytes.resize(numbers.size() * sizeof(encode(0)));
  std::byte* at = bytes.data();
  for (double& number : numbers) {
    const auto stored = encode(number);
    number = decode(stored);
    std::memcpy(at, &stored, sizeof stored);
    at += sizeof stored;
  }
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

void store_numbers(Dtype dtype, std::span<double> numbers,
                   std::vector<std::byte>& bytes) {
  switch (dtype) {
    case Dtype::kF16:
      return store_each(
          numbers, bytes, [](double x) { return f16_from_double(x); },
          [](uint16_t x) { return f16_to_double(x); });
    case Dtype::kBf16:
      return store_each(
          numbers, bytes, [](double x) { return bf16_from_double(x); },
          [](uint16_t x) { return bf16_to_double(x); });
    case Dtype::kF32:
      return store_each(
          numbers, bytes, [](double x) { return static_cast<float>(x); },
          [](float x) { return double{x}; });
    default:
      return store_each(
          numbers, bytes, [](double x) { return x; },
          [](double x) { return x; });
  }
}

std::vector<double> stored_numbers(Dtype dtype,
                                   std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::kF16:
      return stored_numbers<uint16_t>(
          bytes, [](uint16_t x) { return f16_to_double(x); });
    case Dtype::kBf16:
      return stored_numbers<uint16_t>(
          bytes, [](uint16_t x) { return bf16_to_double(x); });
    case Dtype::kF32:
      return stored_numbers<float>(bytes, [](float x) { return double{x}; });
    default:
      return stored_numbers<double>(bytes, [](double x) { return x; });
  }
}

double largest_finite(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 65504;
    case Dtype::kBf16:
      return 0x1.fep127;
    case Dtype::kF64:
      return std::numeric_limits<double>::max();
    default:
      return double{std::numeric_limits<float>::max()};
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
