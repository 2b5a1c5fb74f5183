// SPDX-License-Identifier: Apache-2.0
// Measures the polynomials of exp against that of double, at every 61st
// float of [-87, 0]. A run over every float gave the numbers stated in
// poly_exp.h.
#include "impl/controls/poly_exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace qkvet::impl::poly_exp_test {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kMeasuredUnits = 3.06;
constexpr double kMeasuredCoarse = 7.51e-5;
constexpr uint32_t kStride = 61;

// The largest relative error.
double measured(float (*approximate)(float)) {
  const uint32_t last = std::bit_cast<uint32_t>(-87.0f);
  double worst = 0;
  for (uint64_t bits = 0x80000000u; bits <= last; bits += kStride) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const double exact = std::exp(static_cast<double>(x));
    const double error = std::fabs(approximate(x) / exact - 1);
    worst = error <= worst ? worst : error;
  }
  return worst;
}

TEST(PolyExp, StaysWithinItsMeasuredError) {
  const double worst = measured(poly_exp) / kUnit;
  EXPECT_LE(worst, kMeasuredUnits);
  EXPECT_GE(worst, 2.5) << "the measurement itself";
  EXPECT_EQ(poly_exp(0), 1);
  EXPECT_EQ(poly_exp(-1e30f), 0);
  EXPECT_TRUE(std::isnan(poly_exp(std::nanf(""))));
}

TEST(PolyExp, OfDegreeThreeIsCoarse) {
  const double worst = measured(coarse_exp);
  EXPECT_LE(worst, kMeasuredCoarse);
  EXPECT_GE(worst, 0.99 * kMeasuredCoarse) << "the measurement itself";
  EXPECT_NE(coarse_exp(0), 1);
  EXPECT_EQ(coarse_exp(-1e30f), 0);
  EXPECT_TRUE(std::isnan(coarse_exp(std::nanf(""))));
}

// In units of max(1, |ln x|), from 2^-40 to 2^40.
TEST(CoarseLog, StaysWithinItsMeasuredError) {
  constexpr double kMeasured = 4.42e-4;
  const uint32_t last = std::bit_cast<uint32_t>(0x1p40f);
  double worst = 0;
  for (uint64_t bits = std::bit_cast<uint32_t>(0x1p-40f); bits <= last;
       bits += kStride) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const double exact = std::log(static_cast<double>(x));
    const double size = std::fmax(1, std::fabs(exact));
    const double error = std::fabs(double{coarse_log(x)} - exact) / size;
    worst = error <= worst ? worst : error;
  }
  EXPECT_LE(worst, kMeasured);
  EXPECT_GE(worst, 0.99 * kMeasured) << "the measurement itself";
  EXPECT_NE(coarse_log(1), 0);
}

}  // namespace
}  // namespace qkvet::impl::poly_exp_test
