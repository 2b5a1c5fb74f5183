// SPDX-License-Identifier: Apache-2.0
// The twin agrees with the definition on every option and every pair of them,
// and its arithmetic is what it claims.
#include "reference/attention/twin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_options.h"

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

double agreement(TestProblem& p) {
  return reference_ratio(p.get(), plain_forward(p.get()),
                         twin_forward(p.get()));
}

TEST(TwinOptionsTest, AgreesWithinTheBoundOfDouble) {
  constexpr int kProblems = 6800;
  TestRandom random(31);
  double largest = 0;
  int empty = 0;
  int uncounted = 0;
  int holes = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestProblem p =
        random_option_problem(random, regime, random_shape(random, 12));
    const OracleOutput plain = plain_forward(p.get());
    const OracleOutput twin = twin_forward(p.get());
    const double ratio = reference_ratio(p.get(), plain, twin);
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ", ratio " << ratio;
    largest = std::max(largest, ratio);
    for (size_t row = 0; row < plain.visible.size(); ++row) {
      const int64_t n = plain.visible[row];
      empty += n == 0;
      uncounted += n == kRowNotCounted;
      holes += n > 0 && plain.sees[row * p.problem.shape.Tk] == 0;
    }
  }
  EXPECT_GT(empty, kProblems);
  EXPECT_GT(uncounted, kProblems);
  EXPECT_GT(holes, kProblems);
  EXPECT_GT(largest, 0.1);
  std::printf("largest distance / bound of double: %.3f\n", largest);
}

TEST(TwinOptionsTest, AgreesOnEveryPairOfOptions) {
  TestRandom random(32);
  for (int a = 0; a < kTestOptionCount; ++a) {
    for (int b = a; b < kTestOptionCount; ++b) {
      for (int i = 0; i < 20; ++i) {
        TestProblem p = option_problem(
            random, Regime::kNormal, random_shape(random, 12),
            {static_cast<TestOption>(a), static_cast<TestOption>(b)});
        ASSERT_TRUE(agreement(p) <= 1) << a << " and " << b;
      }
    }
  }
}

// Lists beside every other option, and lists that are written as a mask.
TEST(TwinOptionsTest, AgreesOnListsOfKeys) {
  constexpr int kProblems = 1700;
  TestRandom random(35);
  int hidden = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestProblem p =
        random_list_problem(random, regime, random_shape(random, 12));
    ASSERT_TRUE(agreement(p) <= 1) << "problem " << i;
    const OracleOutput listed = plain_forward(p.get());
    TestProblem masked = p;
    masked.listed_keys.clear();
    masked.listed_counts.clear();
    masked.mask = listed.sees;
    const OracleOutput out = plain_forward(masked.get());
    EXPECT_EQ(out.sees, listed.sees);
    EXPECT_EQ(out.visible, listed.visible);
    EXPECT_EQ(out.weights, listed.weights);
    p.listed_keys.clear();
    p.listed_counts.clear();
    hidden += plain_forward(p.get()).sees != listed.sees;
  }
  EXPECT_GT(hidden, kProblems / 2);
}

// ALiBi depends on the positions of keys, which a bias can express as well.
TEST(TwinOptionsTest, AgreesOnPlacesWithGaps) {
  TestRandom random(36);
  int differ = 0;
  for (int i = 0; i < 400; ++i) {
    Shape shape = random_shape(random, 12);
    shape.B = 1;
    shape.Tq = std::min(shape.Tq, shape.Tk);
    TestProblem p = random_problem(random, Regime::kNormal, shape);
    p.problem.causal = Causal::kBottomRight;
    for (int64_t h = 0; h < shape.H; ++h) p.slopes.push_back(random.normal());
    const OracleOutput without = plain_forward(p.get());
    std::vector<int64_t> places;
    for (int64_t j = 0, at = 0; j < shape.Tk; ++j, ++at)
      places.push_back(at += random.uniform() < 0.3 ? 5 : 0);
    p.problem.places = places.data();
    ASSERT_TRUE(agreement(p) <= 1) << "problem " << i;
    const OracleOutput out = plain_forward(p.get());
    differ += out.weights != without.weights;
    TestProblem biased = p;
    biased.problem.places = nullptr;
    biased.slopes.clear();
    for (int64_t h = 0; h < shape.H; ++h)
      for (int64_t row = shape.Tk - shape.Tq; row < shape.Tk; ++row)
        for (int64_t j = 0; j < shape.Tk; ++j)
          biased.bias.push_back(-p.slopes[h] * static_cast<double>(std::abs(
                                                   places[row] - places[j])));
    EXPECT_EQ(out.weights, plain_forward(biased.get()).weights);
    EXPECT_EQ(out.lse, plain_forward(biased.get()).lse);
  }
  EXPECT_GT(differ, 200);
}

TEST(TwinOptionsTest, AgreesOnEmptyExtents) {
  TestRandom random(33);
  Shape full;
  full.B = 2;
  full.Tq = 3;
  full.Tk = 4;
  for (int64_t Shape::*extent : {&Shape::B, &Shape::Tq, &Shape::Tk}) {
    Shape shape = full;
    TestProblem p = random_problem(random, Regime::kNormal, shape);
    p.problem.shape.*extent = 0;
    p.problem.window = Window{1, 0};
    p.slopes = {0.5};
    p.sink = {1};
    p.problem.softcap = 2;
    EXPECT_TRUE(agreement(p) <= 1);
    const OracleOutput out = plain_forward(p.get());
    EXPECT_EQ(out.visible,
              (std::vector<int64_t>(p.problem.shape.lse_elements(), 0)));
  }
}

// Near 0 no bit of tanh may be lost, far off it is 1.
TEST(DoubleDoubleTest, HyperbolicTangentObeysItsIdentities) {
  constexpr double kUnits = 0x1p-92;  // relative
  TestRandom random(34);
  for (int i = 0; i < 3000; ++i) {
    const double x = random.normal() * std::exp2(8 * random.uniform() - 12);
    const DoubleDouble t = dd_tanh(x);
    // tanh 2x = 2t / (1 + t^2).
    const DoubleDouble twice =
        times_power_of_two(t, 1) / (DoubleDouble(1.0) + t * t);
    const double error = std::fabs((dd_tanh(2 * x) - twice).hi);
    EXPECT_LE(error, kUnits * std::fabs(twice.hi)) << x;
    EXPECT_NEAR(t.hi, std::tanh(x), 0x1p-51 * std::fabs(t.hi)) << x;
  }
  // x - x^3/3; the next term is below 2^-120 x.
  const double tiny = 0x1p-30;
  const DoubleDouble series =
      DoubleDouble(tiny) - DoubleDouble(tiny * tiny * tiny) / 3.0;
  EXPECT_LE(std::fabs((dd_tanh(tiny) - series).hi), 0x1p-104 * tiny);
  EXPECT_EQ(dd_tanh(0.0).hi, 0);
  EXPECT_EQ(dd_tanh(1e4).hi, 1);
  EXPECT_EQ(dd_tanh(-1e4).hi, -1);
}

}  // namespace
}  // namespace qkvet::reference::twin_test
