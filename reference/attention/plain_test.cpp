// SPDX-License-Identifier: Apache-2.0
// The definition against textbook examples that were worked by hand.
#include "reference/attention/plain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace qkvet::reference::plain_test {
namespace {

// Every value below is a sum of at most eight roundings of numbers near 10.
constexpr double kWorkedByHand = 8 * 10 * 0x1p-53;

// A problem with given scores [Tq,Tk], of one head: q holds the scores and k is
// the identity, so that d = Tk and q k^T is the matrix itself.
struct Given {
  Given(std::vector<double> scores, int64_t Tq, std::vector<double> values,
        int64_t dv, Causal causal = Causal::kNone)
      : q(std::move(scores)), v(std::move(values)) {
    Shape& shape = problem.shape;
    shape.Tq = Tq;
    shape.Tk = shape.d = static_cast<int64_t>(q.size()) / Tq;
    shape.dv = dv;
    k.assign(shape.Tk * shape.Tk, 0.0);
    for (int64_t j = 0; j < shape.Tk; ++j) k[j * shape.Tk + j] = 1;
    problem.causal = causal;
  }
  OracleOutput forward() {
    problem.q = q.data();
    problem.k = k.data();
    problem.v = v.data();
    return plain_forward(problem);
  }
  Problem problem;
  std::vector<double> q, k, v;
};

void expect_near(const std::vector<double>& got,
                 const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], kWorkedByHand) << "element " << i;
  }
}

TEST(PlainTest, EqualScoresUnderACausalMaskAverageThePast) {
  Given given(std::vector<double>(16, 0.0), /*Tq=*/4, {12, 24, 36, 48},
              /*dv=*/1, Causal::kTopLeft);
  const OracleOutput out = given.forward();
  const double third = 1.0 / 3;
  expect_near(out.weights, {1, 0, 0, 0,              //
                            0.5, 0.5, 0, 0,          //
                            third, third, third, 0,  //
                            0.25, 0.25, 0.25, 0.25});
  expect_near(out.o, {12, 18, 24, 30});
  expect_near(out.lse, {0, std::log(2), std::log(3), std::log(4)});
  EXPECT_EQ(out.visible, (std::vector<int64_t>{1, 2, 3, 4}));
  // The future is exactly zero, not merely small.
  EXPECT_EQ(out.weights[1], 0);
  EXPECT_EQ(out.weights[11], 0);
}

TEST(PlainTest, GivenWeightsMixTheValues) {
  // A score of log(0) cannot pass through q k^T: the key is masked instead.
  Given masked({std::log(0.80), std::log(0.20), 0,  //
                std::log(0.80), std::log(0.20), 0,  //
                std::log(0.80), std::log(0.20), 0},
               /*Tq=*/3, {10, 1, 4, 2, 7, 3}, /*dv=*/2, Causal::kTopLeft);
  const OracleOutput out = masked.forward();
  expect_near({out.weights[3], out.weights[4], out.weights[5]},
              {0.80, 0.20, 0});
  expect_near({out.o[2], out.o[3]}, {8.8, 1.2});
  expect_near({out.lse[1]}, {0});

  Given three({std::log(0.05), std::log(0.90), std::log(0.05)}, /*Tq=*/1,
              {1, 9, 3, 6, 5, 2}, /*dv=*/2);
  const OracleOutput mixed = three.forward();
  expect_near(mixed.weights, {0.05, 0.90, 0.05});
  expect_near(mixed.o, {3.0, 5.95});
  expect_near(mixed.lse, {0});
}

TEST(PlainTest, ACausalRowNeverSeesWhatComesAfterIt) {
  Given given({2, 1, 0, -1, 1, 3, 2, 0, 2, 1, 4, 3, 0, 1, 2, 3}, /*Tq=*/4,
              {1, 0, 0, 1, 1, 1, 9, 9}, /*dv=*/2, Causal::kTopLeft);
  const OracleOutput out = given.forward();
  // Row 2 sees the scores 2, 1, 4.
  const double sum = std::exp(-2) + std::exp(-3) + 1;
  const double a = std::exp(-2) / sum;
  const double b = std::exp(-3) / sum;
  const double c = 1 / sum;
  expect_near({out.weights[8], out.weights[9], out.weights[10]}, {a, b, c});
  EXPECT_EQ(out.weights[11], 0);
  expect_near({out.o[4], out.o[5]}, {a + c, b + c});
  expect_near({out.lse[2]}, {4 + std::log(sum)});
  // The value [9, 9] arrives in row 3 alone.
  for (size_t t = 0; t < 6; ++t) EXPECT_LE(out.o[t], 1) << t;
  EXPECT_GT(out.o[6], 1);

  // Nothing at position 3, not even NaN, can reach rows 0 to 2.
  Given poisoned = given;
  poisoned.v[6] = poisoned.v[7] = std::nan("");
  const OracleOutput past = poisoned.forward();
  for (size_t t = 0; t < 6; ++t) EXPECT_EQ(past.o[t], out.o[t]) << t;
}

// Six query heads over two key/value heads: heads 0, 1, 2 read the first.
TEST(PlainTest, GroupedHeadsReadTheHeadOfTheirGroup) {
  Problem problem;
  problem.shape.H = 6;
  problem.shape.Hkv = 2;
  problem.shape.B = 2;
  const std::vector<double> q(12, 1.0);
  const std::vector<double> k(4, 1.0);
  const std::vector<double> v = {1, 2, 3, 4};  // [B,Hkv,1,1]
  problem.q = q.data();
  problem.k = k.data();
  problem.v = v.data();
  const OracleOutput out = plain_forward(problem);
  EXPECT_EQ(out.o, (std::vector<double>{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}));
}

TEST(PlainTest, AlignmentsDifferWhereLengthsDo) {
  // Two queries, four keys.
  Given more_keys(std::vector<double>(8, 0.0), /*Tq=*/2, {1, 2, 3, 4}, 1);
  more_keys.problem.causal = Causal::kTopLeft;
  EXPECT_EQ(more_keys.forward().visible, (std::vector<int64_t>{1, 2}));
  more_keys.problem.causal = Causal::kBottomRight;
  const OracleOutput right = more_keys.forward();
  EXPECT_EQ(right.visible, (std::vector<int64_t>{3, 4}));
  expect_near(right.o, {2, 2.5});
  more_keys.problem.causal = Causal::kNone;
  EXPECT_EQ(more_keys.forward().visible, (std::vector<int64_t>{4, 4}));

  // Four queries, two keys.
  Given more_queries(std::vector<double>(8, 0.0), /*Tq=*/4, {1, 2}, 1);
  more_queries.problem.causal = Causal::kTopLeft;
  EXPECT_EQ(more_queries.forward().visible, (std::vector<int64_t>{1, 2, 2, 2}));
  more_queries.problem.causal = Causal::kBottomRight;
  EXPECT_EQ(more_queries.forward().visible, (std::vector<int64_t>{0, 0, 1, 2}));
}

TEST(PlainTest, RowsWithoutAKeyHaveNoOutput) {
  Given given(std::vector<double>(6, 0.0), /*Tq=*/3, {5, 6}, /*dv=*/1,
              Causal::kBottomRight);
  const OracleOutput out = given.forward();
  EXPECT_TRUE(std::isnan(out.o[0]));
  EXPECT_EQ(out.lse[0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(out.weights[0], 0);
  EXPECT_EQ(out.weights[1], 0);
  EXPECT_EQ(out.visible[0], 0);
  EXPECT_EQ(out.o[1], 5);

  Given no_keys({}, /*Tq=*/1, {}, /*dv=*/2);
  const OracleOutput nothing = no_keys.forward();
  EXPECT_EQ(nothing.visible, (std::vector<int64_t>{0}));
  EXPECT_TRUE(std::isnan(nothing.o[1]));
}

TEST(PlainTest, TheScaleMultipliesTheScores) {
  Given given({2, 0}, /*Tq=*/1, {1, 0}, /*dv=*/1);
  given.problem.scale = 0.5;
  const double e = std::exp(1.0);
  expect_near(given.forward().weights, {e / (e + 1), 1 / (e + 1)});
  given.problem.scale = 0;
  expect_near(given.forward().weights, {0.5, 0.5});
  EXPECT_EQ(default_scale(64), 0.125);
}

}  // namespace
}  // namespace qkvet::reference::plain_test
