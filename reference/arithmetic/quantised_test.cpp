// SPDX-License-Identifier: Apache-2.0
// The bound on stored numbers against a quantiser that rounds in f32 as the
// derivation allows, and against quantisers that are wrong.
#include "reference/arithmetic/quantised.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/philox.h"

namespace qkvet::reference::quantised_test {
namespace {

// The nearest e4m3 number, ties to even; saturating.
float nearest_e4m3(float y) {
  const float size = std::min(std::fabs(y), 448.0f);
  const int exponent = size < 0x1p-6f ? -6 : std::ilogb(size);
  const float step = std::ldexp(1.0f, exponent - 3);
  return std::copysign(std::nearbyint(size / step) * step, y);
}

float nearest_int8(float y) {
  return std::clamp(std::nearbyint(y), -127.0f, 127.0f);
}

struct Quantiser {
  StoredAs stored;
  bool reciprocal = false;  // x * (1 / s) in place of x / s
  float codes = 1;          // a wrong largest code
  bool cuts = false;        // towards zero in place of to the nearest
};

// The largest error over its bound, of rows of random magnitudes.
double worst_ratio(const Quantiser& quantiser, int rows) {
  const bool int8 = quantiser.stored == StoredAs::kInt8PerToken;
  const float largest = (int8 ? 127.0f : 448.0f) * quantiser.codes;
  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    std::vector<double> x(7);
    const double size = std::ldexp(
        1.0,
        static_cast<int>(philox_u64(1, 0, static_cast<uint32_t>(row), 9) % 60) -
            30);
    for (size_t c = 0; c < x.size(); ++c) {
      const auto bits =
          static_cast<double>(philox_u64(1, 0, static_cast<uint32_t>(row),
                                         static_cast<uint32_t>(c)) >>
                              40);
      const double spread = c < 3 ? 1 : 0x1p-9;  // codes of all sizes
      x[c] = static_cast<float>((bits / 0x1p23 - 1) * size * spread);
    }
    float most = 0;
    for (const double value : x)
      most = std::max(most, std::fabs(static_cast<float>(value)));
    const float scale = most / largest;
    const float inverse = 1 / scale;
    const auto bounds =
        stored_errors({0, 0, 0, quantiser.stored}, x, x.size(), nullptr);
    for (size_t c = 0; c < x.size(); ++c) {
      const auto value = static_cast<float>(x[c]);
      const float y = quantiser.reciprocal ? value * inverse : value / scale;
      const float code = quantiser.cuts ? std::trunc(y)
                         : int8         ? nearest_int8(y)
                                        : nearest_e4m3(y);
      const float stored = code * scale;
      worst = std::max(
          worst, std::fabs(static_cast<double>(stored) - x[c]) / bounds[c]);
    }
  }
  return worst;
}

TEST(StoredError, HoldsForHonestQuantisers) {
  for (const StoredAs stored :
       {StoredAs::kInt8PerToken, StoredAs::kFp8PerToken})
    for (const bool reciprocal : {false, true}) {
      const double worst = worst_ratio({stored, reciprocal}, 20000);
      EXPECT_LE(worst, 1);
      EXPECT_GT(worst, 0.98);  // and is no larger than it must be
    }
}

TEST(StoredError, IsExceededByWrongOnes) {
  // Towards zero.
  EXPECT_GT(worst_ratio({StoredAs::kInt8PerToken, false, 1, true}, 100), 1.5);
  // e4m3 of another maximum: 240, as its sibling has.
  EXPECT_GT(worst_ratio({StoredAs::kFp8PerToken, false, 2, false}, 100), 1);
  // As int8, with a range of 6 bits.
  EXPECT_GT(worst_ratio({StoredAs::kInt8PerToken, false, 0.5f, false}, 100),
            1.5);
}

TEST(StoredError, PerChannelTheScaleIsGiven) {
  const double scales[] = {0.5, 2};
  const auto errors = stored_errors({0, 0, 0, StoredAs::kInt8PerChannel},
                                    {1, 1, 3, -4}, 2, scales);
  EXPECT_NEAR(errors[0], 0.25, 1e-4);
  EXPECT_NEAR(errors[3], 1, 1e-3);
  EXPECT_EQ(errors[0], errors[2]);
  const auto fp8 =
      stored_errors({0, 0, 0, StoredAs::kFp8PerChannel}, {1, 1e-9}, 2, scales);
  EXPECT_NEAR(fp8[0], 1.0 / 17, 1e-3);
  EXPECT_NEAR(fp8[1], 2 * 0x1p-10, 1e-3);
  EXPECT_EQ(stored_error(StoredAs::kAsGiven, 5, 5), 0);
}

}  // namespace
}  // namespace qkvet::reference::quantised_test
