// SPDX-License-Identifier: Apache-2.0
// impl/call/half.h by exhaustion: every bit pattern to f32, and every place
// where the rounding from f32 changes: the points halfway between two
// neighbours, and the floats next to them. In between it is monotone, which is
// checked at every 61st float. And in_f32.h: half storage is unchanged where an
// arithmetic in f32 writes nothing.
#include "impl/call/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "impl/call/in_f32.h"

namespace qkvet::impl::half_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kStride = 61;

struct Format {
  Storage type;
  int fraction_bits;
  int bias;
  uint16_t infinity;  // pattern
};
constexpr Format kFormats[] = {{Storage::kF16, 10, 15, 0x7c00},
                               {Storage::kBf16, 7, 127, 0x7f80}};

// The value of a pattern that is not negative, by its definition; the number
// after the largest finite one counts as finite.
double value_of(const Format& format, uint32_t bits) {
  const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const auto exponent = static_cast<int>(bits >> format.fraction_bits);
  const double significand =
      fraction + (exponent > 0 ? std::ldexp(1, format.fraction_bits) : 0);
  return std::ldexp(significand, (exponent > 0 ? exponent : 1) - format.bias -
                                     format.fraction_bits);
}

TEST(Half, EveryPatternHasItsValue) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits < 0x8000; ++bits) {
      const float plus = from_half(format.type, static_cast<uint16_t>(bits));
      const float minus =
          from_half(format.type, static_cast<uint16_t>(bits | 0x8000));
      if (bits > format.infinity) {
        ASSERT_TRUE(std::isnan(plus) && std::isnan(minus)) << bits;
      } else {
        const double value = bits == format.infinity ? double(kInfinity)
                                                     : value_of(format, bits);
        ASSERT_EQ(double(plus), value) << bits;
        ASSERT_EQ(double(minus), -value) << bits;
      }
      ASSERT_FALSE(std::signbit(plus)) << bits;
      ASSERT_TRUE(std::signbit(minus)) << bits;
    }
  }
}

TEST(Half, EveryPatternComesBack) {
  for (const Format& format : kFormats) {
    for (uint32_t n = 0; n < 0x10000; ++n) {
      const auto bits = static_cast<uint16_t>(n);
      const uint16_t back = to_half(format.type, from_half(format.type, bits));
      if ((bits & 0x7fff) > format.infinity) {
        ASSERT_TRUE(std::isnan(from_half(format.type, back))) << bits;
        ASSERT_EQ(back & 0x8000, bits & 0x8000) << bits;
      } else {
        ASSERT_EQ(back, bits);
      }
    }
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits < format.infinity; ++bits) {
      const double middle =
          (value_of(format, bits) + value_of(format, bits + 1)) / 2;
      const auto tie = static_cast<float>(middle);
      ASSERT_EQ(double(tie), middle) << bits;
      const float below = std::nextafter(tie, 0.0f);
      const float above = std::nextafter(tie, kInfinity);
      ASSERT_EQ(to_half(format.type, below), bits);
      ASSERT_EQ(to_half(format.type, tie), bits + bits % 2);
      ASSERT_EQ(to_half(format.type, above), bits + 1);
      ASSERT_EQ(to_half(format.type, -below), bits | 0x8000);
      ASSERT_EQ(to_half(format.type, -tie), (bits + bits % 2) | 0x8000);
      ASSERT_EQ(to_half(format.type, -above), (bits + 1) | 0x8000);
    }
  }
}

TEST(Half, IsMonotoneAndKeepsInfinityAndNan) {
  for (const Format& format : kFormats) {
    uint16_t last = 0;
    for (uint32_t n = 0; n <= 0x7f800000; n += kStride) {
      const uint16_t bits = to_half(format.type, std::bit_cast<float>(n));
      ASSERT_GE(bits, last) << n;
      last = bits;
    }
    EXPECT_EQ(to_half(format.type, kInfinity), format.infinity);
    EXPECT_EQ(to_half(format.type, -kInfinity), format.infinity | 0x8000);
    // NaN with the least and the largest payload, of both signs.
    for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u}) {
      const uint16_t bits = to_half(format.type, std::bit_cast<float>(nan));
      EXPECT_GT(bits & 0x7fff, format.infinity);
      EXPECT_EQ(bits >> 15, nan >> 31);
    }
  }
}

TEST(Half, RoundToLeavesF32Alone) {
  EXPECT_EQ(round_to(Storage::kF32, 1.0000001f), 1.0000001f);
  EXPECT_EQ(round_to(Storage::kF16, 1.0000001f), 1);
  EXPECT_EQ(round_to(Storage::kF16, 65519.0f), 65504);
  EXPECT_EQ(round_to(Storage::kF16, 65520.0f), kInfinity);
  EXPECT_EQ(round_to(Storage::kF16, 0x1p-25f), 0);
  EXPECT_EQ(round_to(Storage::kBf16, 257.0f), 256);
}

// Writes every second row of a single channel: NaN in row 2, 1 in the
// others.
qkvet_status write_every_second(const ForwardCall& call, qkvet_text*) {
  for (int64_t i = 0; i < call.queries; i += 2) {
    *call.o.at(0, 0, i) =
        i == 2 ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
  }
  return QKVET_OK;
}

TEST(Half, WhatAnArithmeticDoesNotWriteIsLeftAlone) {
  constexpr int64_t kRows = kWidenedRows + 4;  // of two pieces
  constexpr uint16_t kBefore = 0x7ffb;
  for (const Format& format : kFormats) {
    const std::vector<uint16_t> inputs(static_cast<size_t>(kRows));
    std::vector<uint16_t> o(static_cast<size_t>(kRows), kBefore);
    ForwardCall call;
    call.batch = call.heads = call.kv_heads = call.width = call.value_width = 1;
    call.queries = call.keys = kRows;
    call.storage = format.type;
    call.half.q = call.half.k = call.half.v = {inputs.data(), {0, 0, 1, 1}};
    call.half.o = {o.data(), {0, 0, 1, 1}};
    ASSERT_EQ(compute_in_f32(call, write_every_second, nullptr), QKVET_OK);
    for (int64_t i = 0; i < kRows; ++i) {
      const uint16_t bits = o[static_cast<size_t>(i)];
      if (i % kWidenedRows == 2)
        EXPECT_TRUE(std::isnan(from_half(format.type, bits)) && bits != kBefore)
            << i;
      else
        EXPECT_EQ(bits, i % 2 == 0 ? to_half(format.type, 1.0f) : kBefore) << i;
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::half_test
