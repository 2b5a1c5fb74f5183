// SPDX-License-Identifier: Apache-2.0
// Measures Eigen's vector exp against exp in double, at every 61st float of
// [-87.3, 0]. Every single one gave the number that plain.cpp states.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>

namespace qkvet::impl::eigen_exp_test {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kMeasuredUnits = 1.99;
constexpr double kFloor = 0x1p-127;  // declared
constexpr uint32_t kStride = 61;
constexpr Eigen::Index kBatch = 4096;

TEST(EigenExp, StaysWithinItsMeasuredError) {
  const uint32_t last = std::bit_cast<uint32_t>(-87.3f);
  Eigen::ArrayXf x(kBatch);
  double worst = 0;
  for (uint64_t bits = 0x80000000u; bits <= last;) {
    x.setZero();
    for (Eigen::Index i = 0; i < kBatch && bits <= last; ++i, bits += kStride) {
      x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits));
    }
    const Eigen::ArrayXf y = x.exp();
    for (Eigen::Index i = 0; i < kBatch; ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      const double error = std::fabs(y[i] / exact - 1) / kUnit;
      worst = error <= worst ? worst : error;
    }
  }
  EXPECT_LE(worst, kMeasuredUnits);
  EXPECT_GE(worst, 0.95) << "the measurement itself";
}

TEST(EigenExp, EndsWithinItsDeclaredFloor) {
  Eigen::ArrayXf x = Eigen::ArrayXf::LinSpaced(kBatch, -120, -87.2f);
  x[0] = -INFINITY;
  const Eigen::ArrayXf y = x.exp();
  for (Eigen::Index i = 0; i < kBatch; ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    EXPECT_LE(std::fabs(y[i] - exact), kFloor + 2.2 * kUnit * exact) << x[i];
  }
  EXPECT_EQ(Eigen::ArrayXf::Zero(8).exp().minCoeff(), 1);
}

}  // namespace
}  // namespace qkvet::impl::eigen_exp_test
