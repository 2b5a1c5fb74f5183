// SPDX-License-Identifier: Apache-2.0
#include "core/base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/base/philox.h"

namespace qkvet::half_test {
namespace {

TEST(Half, EveryBitPatternSurvives) {
  for (uint32_t n = 0; n < 65536; ++n) {
    const auto bits = static_cast<uint16_t>(n);
    const double f16 = f16_to_double(bits), bf16 = bf16_to_double(bits);
    if (std::isnan(f16))
      EXPECT_TRUE(std::isnan(f16_to_double(f16_from_double(f16))));
    else
      ASSERT_EQ(f16_from_double(f16), bits);
    if (std::isnan(bf16))
      EXPECT_TRUE(std::isnan(bf16_to_double(bf16_from_double(bf16))));
    else
      ASSERT_EQ(bf16_from_double(bf16), bits);
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(f16_from_double(1), 0x3C00);
  EXPECT_EQ(f16_from_double(-2), 0xC000);
  EXPECT_EQ(f16_from_double(65504), 0x7BFF);
  EXPECT_EQ(f16_from_double(65520), 0x7C00);  // the tie goes to infinity
  EXPECT_EQ(f16_from_double(65519.99), 0x7BFF);
  EXPECT_EQ(f16_from_double(0x1p-24), 0x0001);
  EXPECT_EQ(f16_from_double(0x1p-25), 0x0000);  // a tie to even
  EXPECT_EQ(f16_from_double(0x1.8p-25), 0x0001);
  EXPECT_EQ(bf16_from_double(1), 0x3F80);
  EXPECT_EQ(bf16_from_double(3.14159265), 0x4049);
  EXPECT_EQ(bf16_from_double(-0.0), 0x8000);
  EXPECT_EQ(bf16_to_double(0x7F80), INFINITY);
}

// bf16 is the upper half of a float: rounding a float to it by bits must agree.
TEST(Half, Bf16AgreesWithTheUpperHalfOfAFloat) {
  for (uint32_t n = 0; n < 200000; ++n) {
    const auto bits = static_cast<uint32_t>(philox_u64(3, n, 0, 0));
    const auto value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
    ASSERT_EQ(bf16_from_double(static_cast<double>(value)), rounded >> 16)
        << value;
  }
}

// Rounding is to the nearest neighbour, by exhaustion over all neighbours.
TEST(Half, F16RoundsToTheNearestAndTiesToEven) {
  for (uint32_t n = 0; n < 0x7BFF; ++n) {
    const auto low = static_cast<uint16_t>(n);
    const auto high = static_cast<uint16_t>(n + 1);
    const double a = f16_to_double(low), b = f16_to_double(high);
    const double middle = (a + b) / 2;
    ASSERT_EQ(f16_from_double(middle), n % 2 == 0 ? low : high);
    ASSERT_EQ(f16_from_double(std::nextafter(middle, a)), low);
    ASSERT_EQ(f16_from_double(std::nextafter(middle, b)), high);
  }
}

// By way of float this number would round to an even neighbour by accident.
TEST(Half, RoundsOnceAndNotTwice) {
  const double value = 1 + 0x1p-11 + 0x1p-40;  // just above a tie of f16
  EXPECT_EQ(f16_from_double(value), 0x3C01);
  EXPECT_EQ(f16_from_double(static_cast<double>(static_cast<float>(value))),
            0x3C00);
}

TEST(Half, RoundToIsWhatStorageHolds) {
  for (const double value : {0.1, -3.7, 1e5, 1e-6, 0.0}) {
    EXPECT_EQ(round_to(Dtype::kF16, value),
              f16_to_double(f16_from_double(value)));
    EXPECT_EQ(round_to(Dtype::kBf16, value),
              bf16_to_double(bf16_from_double(value)));
    EXPECT_EQ(round_to(Dtype::kF32, value),
              static_cast<double>(static_cast<float>(value)));
    EXPECT_EQ(round_to(Dtype::kF64, value), value);
  }
}

}  // namespace
}  // namespace qkvet::half_test
