// SPDX-License-Identifier: Apache-2.0
// The twin agrees with the definition, and its arithmetic is what it claims.
#include "reference/attention/twin.h"

#include <gtest/gtest.h>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_problems.h"

namespace qkvet::reference::twin_test {
namespace {

constexpr double kDdU = 0x1p-104;  // relative error of one dd operation

// |a - b| <= units * 2^-104 * |b|
void expect_close(DoubleDouble a, DoubleDouble b, double units) {
  const double error = std::fabs((a - b).hi);
  EXPECT_TRUE(error <= units * kDdU * std::fabs(b.hi))
      << a.hi << " + " << a.lo << " against " << b.hi << " + " << b.lo;
}

TEST(DoubleDoubleTest, SumsAndProductsOfDoublesAreExact) {
  const DoubleDouble sum = two_sum(1, 0x1p-80);
  EXPECT_EQ(sum.hi, 1);
  EXPECT_EQ(sum.lo, 0x1p-80);
  const double x = 1 + 0x1p-52;  // x^2 = 1 + 2^-51 + 2^-104
  const DoubleDouble square = two_product(x, x);
  EXPECT_EQ(square.hi, 1 + 0x1p-51);
  EXPECT_EQ(square.lo, 0x1p-104);
  TestRandom random(1);
  for (int i = 0; i < 10000; ++i) {
    const double a = random.normal();
    const double b = random.normal() * 1e3;
    // The FMA computes the same rest with one rounding of its own.
    const DoubleDouble product = two_product(a, b);
    EXPECT_EQ(product.hi, a * b);
    EXPECT_EQ(product.lo, std::fma(a, b, -(a * b)));
    const DoubleDouble back = (two_sum(a, b) - DoubleDouble(b));
    EXPECT_EQ(back.hi, a);
    EXPECT_EQ(back.lo, 0);
  }
}

TEST(DoubleDoubleTest, ArithmeticKeepsAbout104Bits) {
  TestRandom random(2);
  for (int i = 0; i < 10000; ++i) {
    const DoubleDouble a(random.normal(), 0x1p-54 * random.uniform());
    const DoubleDouble b(1 + random.uniform(), 0x1p-55 * random.uniform());
    const DoubleDouble x = quick_two_sum(a.hi, a.lo);
    const DoubleDouble y = quick_two_sum(b.hi, b.lo);
    expect_close(x / y * y, x, 16);
    expect_close((x * y) / y, x, 16);
    expect_close(x * (y + 1.0), x * y + x, 64 * (1 + std::fabs(1 / x.hi)));
  }
}

TEST(DoubleDoubleTest, ExponentialObeysItsIdentities) {
  // Error of dd_exp: 2^-96 (double_double.h), in units of 2^-104.
  constexpr double kExpUnits = 0x1p9;
  expect_close(dd_exp(0.0), 1.0, 0);
  expect_close(dd_exp(kLn2), 2.0, kExpUnits);
  expect_close(dd_exp(kLn2 * -10.0), 0x1p-10, kExpUnits);
  // e to 40 digits, as hi + lo.
  const DoubleDouble e(0x1.5bf0a8b145769p+1, 0x1.4d57ee2b1013ap-53);
  expect_close(dd_exp(1.0), e, kExpUnits);
  TestRandom random(3);
  for (int i = 0; i < 3000; ++i) {
    const double x = 20 * random.normal();
    const double y = 5 * random.normal();
    expect_close(dd_exp(x) * dd_exp(-x), 1.0, 4 * kExpUnits);
    expect_close(dd_exp(two_sum(x, y)), dd_exp(x) * dd_exp(y),
                 4 * kExpUnits + 128 * std::fabs(x));
  }
  EXPECT_EQ(dd_exp(-1e4).hi, 0);
}

TEST(DoubleDoubleTest, LogarithmInvertsTheExponential) {
  constexpr double kLogUnits = 0x1p10;
  expect_close(dd_log(2.0), kLn2, kLogUnits);
  EXPECT_TRUE(std::fabs(dd_log(1.0).hi) <= kLogUnits * kDdU);
  TestRandom random(4);
  for (int i = 0; i < 3000; ++i) {
    const double x = 1 + 1e4 * random.uniform();
    expect_close(dd_exp(dd_log(x)), x, 16 * kLogUnits);
  }
}

// Random problems in every regime, every causal rule, grouped heads.
TEST(TwinTest, AgreesWithTheDefinitionWithinTheBoundOfDouble) {
  constexpr int kProblems = 3400;
  TestRandom random(5);
  std::vector<double> worst(kRegimeCount);
  int empty_rows = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestProblem p = random_problem(random, regime, random_shape(random, 12));
    const OracleOutput plain = plain_forward(p.get());
    const OracleOutput twin = twin_forward(p.get());
    const double ratio = reference_ratio(p.get(), plain, twin);
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ", ratio " << ratio;
    worst[i % kRegimeCount] = std::max(worst[i % kRegimeCount], ratio);
    for (int64_t n : plain.visible) empty_rows += n == 0;
  }
  EXPECT_GT(empty_rows, 0);
  // A comparison that never comes near its bound would see nothing.
  const double largest = *std::max_element(worst.begin(), worst.end());
  EXPECT_GT(largest, 0.1);
  RecordProperty("largest_ratio", std::to_string(largest));
  std::printf("largest distance / bound of double: %.3f\n", largest);
}

// Rows without a key: bottom_right with more queries than keys.
TEST(TwinTest, AgreesOnRowsWithoutKeys) {
  TestRandom random(6);
  Shape shape;
  shape.Tq = 5;
  shape.Tk = 2;
  TestProblem p = random_problem(random, Regime::kNormal, shape);
  p.problem.causal = Causal::kBottomRight;
  const OracleOutput twin = twin_forward(p.get());
  EXPECT_EQ(twin.visible, (std::vector<int64_t>{0, 0, 0, 1, 2}));
  EXPECT_TRUE(std::isnan(twin.o[0]));
  EXPECT_EQ(twin.lse[0], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(reference_ratio(p.get(), plain_forward(p.get()), twin) <= 1);
}

}  // namespace
}  // namespace qkvet::reference::twin_test
