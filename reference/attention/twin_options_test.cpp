// SPDX-License-Identifier: Apache-2.0
// The twin agrees with the definition on every option and every pair of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "reference/agreement/agreement.h"
#include "reference/arithmetic/double_double.h"
#include "reference/testing/test_options.h"

namespace qkvet::reference::twin_options_test {
namespace {

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
      for (int64_t i = shape.Tk - shape.Tq; i < shape.Tk; ++i)
        for (int64_t j = 0; j < shape.Tk; ++j)
          biased.bias.push_back(-p.slopes[h] * static_cast<double>(std::abs(
                                                   places[i] - places[j])));
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
}  // namespace qkvet::reference::twin_options_test
