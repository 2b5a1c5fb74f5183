// SPDX-License-Identifier: Apache-2.0
// fp8 e4m3: every code, every tie between two codes, and its neighbours.
#include "impl/call/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace qkvet::impl::fp8_test {
namespace {

// The definition: sign, 2^(exponent - 7), 1.fraction; or 0.fraction 2^-6.
double by_definition(int code) {
  const int exponent = code / 8 % 16, fraction = code % 8;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction / 8.0, -6)
                               : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return code >= 128 ? -magnitude : magnitude;
}

bool is_nan_code(int code) { return code % 128 == 127; }

TEST(Fp8, EveryCodeIsItsNumberAndBack) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_f32(static_cast<uint8_t>(code));
    if (is_nan_code(code)) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(double(value), by_definition(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
    EXPECT_EQ(f64_to_e4m3(double(value)), code);
  }
}

TEST(Fp8, TiesGoToTheEvenCodeAndTheirNeighboursToTheNearest) {
  for (int code = 0; code < 126; ++code) {
    const double middle = (by_definition(code) + by_definition(code + 1)) / 2;
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(f64_to_e4m3(middle), even) << code;
    EXPECT_EQ(f64_to_e4m3(-middle), even + 128) << code;
    EXPECT_EQ(f64_to_e4m3(std::nextafter(middle, 0.0)), code);
    EXPECT_EQ(f64_to_e4m3(std::nextafter(middle, 500.0)), code + 1);
  }
}

TEST(Fp8, SaturatesAndKeepsNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double large : {448.0, 448.001, 479.0, 1e300, infinity}) {
    EXPECT_EQ(f64_to_e4m3(large), 0x7e);
    EXPECT_EQ(f64_to_e4m3(-large), 0xfe);
  }
  EXPECT_EQ(f64_to_e4m3(1e-300), 0);
  EXPECT_EQ(f64_to_e4m3(-0.0), 0x80);
  EXPECT_EQ(f64_to_e4m3(std::nan("")), kNanE4m3);
}

}  // namespace
}  // namespace qkvet::impl::fp8_test
