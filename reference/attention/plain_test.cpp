// SPDX-License-Identifier: Apache-2.0
// The definition and its options against examples that were worked by hand.
#include "reference/attention/plain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/bound/bound.h"

namespace qkvet::reference::plain_test {
namespace {

// Every value below is a sum of at most eight roundings of numbers near 10.
constexpr double kWorkedByHand = 8 * 10 * 0x1p-53;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A problem with given scores [Tq,Tk], of one head: q holds the scores and k is
// the identity, so that d = Tk and q k^T is the matrix itself.
struct Given {
  Given(std::vector<double> scores, int64_t Tq, std::vector<double> values,
        int64_t dv = 1, Causal causal = Causal::kNone)
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

Given zeros(int64_t Tq, int64_t Tk) {
  std::vector<double> values(Tk);
  for (int64_t j = 0; j < Tk; ++j) values[j] = double(j);
  return {std::vector<double>(Tq * Tk, 0.0), Tq, values};
}

using Counts = std::vector<int64_t>;
using Bits = std::vector<uint8_t>;

TEST(PlainOptionsTest, WindowsAreCountedFromTheDiagonal) {
  Given square = zeros(4, 4);
  square.problem.window = Window{1, 0};
  EXPECT_EQ(square.forward().sees, (Bits{1, 0, 0, 0,  //
                                         1, 1, 0, 0,  //
                                         0, 1, 1, 0,  //
                                         0, 0, 1, 1}));
  square.problem.window = Window{0, 2};
  EXPECT_EQ(square.forward().visible, (Counts{3, 3, 2, 1}));
  square.problem.window = Window{-1, 1};
  EXPECT_EQ(square.forward().visible, (Counts{2, 3, 4, 4}));
  // Causality hides later keys.
  square.problem.causal = Causal::kBottomRight;
  EXPECT_EQ(square.forward().visible, (Counts{1, 2, 3, 4}));

  // Two queries, four keys: query 0 is at key 2, or at key 0 for top_left.
  Given wide = zeros(2, 4);
  wide.problem.window = Window{1, 0};
  EXPECT_EQ(wide.forward().sees, (Bits{0, 1, 1, 0, 0, 0, 1, 1}));
  wide.problem.causal = Causal::kTopLeft;
  EXPECT_EQ(wide.forward().sees, (Bits{1, 0, 0, 0, 1, 1, 0, 0}));
  // Four queries, two keys: two queries are before the first key.
  Given tall = zeros(4, 2);
  tall.problem.window = Window{0, 0};
  EXPECT_EQ(tall.forward().visible, (Counts{0, 0, 1, 1}));
}

TEST(PlainOptionsTest, MasksLeaveWhatTheyName) {
  Given given({1, 2, 3, 1, 2, 3}, /*Tq=*/2, {4, 8, 16});
  const Bits mask = {1, 0, 7, 0, 0, 0};
  given.problem.mask = mask.data();
  const OracleOutput out = given.forward();
  EXPECT_EQ(out.visible, (Counts{2, 0}));
  const double low = 1 / (1 + std::exp(2.0));
  EXPECT_NEAR(out.weights[0], low, kWorkedByHand);
  EXPECT_EQ(out.weights[1], 0);
  EXPECT_NEAR(out.o[0], 4 * low + 16 * (1 - low), kWorkedByHand);
  EXPECT_NEAR(out.lse[0], 3 + std::log1p(std::exp(-2.0)), kWorkedByHand);
  EXPECT_TRUE(std::isnan(out.o[1]));
  EXPECT_EQ(out.lse[1], -kInfinity);
}

TEST(PlainOptionsTest, BiasesAreAddedToTheScaledScores) {
  Given given({2, 4}, /*Tq=*/1, {0, 1});
  given.problem.scale = -0.5;
  const std::vector<double> bias = {0, 1 + std::log(3.0)};
  given.problem.bias = bias.data();
  // Scores -1 and -2 + 1 + ln 3.
  EXPECT_NEAR(given.forward().o[0], 0.75, kWorkedByHand);
  EXPECT_NEAR(given.forward().lse[0], -1 + std::log(4.0), kWorkedByHand);
  const std::vector<double> hidden = {0, -kInfinity};
  given.problem.bias = hidden.data();
  EXPECT_EQ(given.forward().visible, Counts{1});
  EXPECT_EQ(given.forward().o[0], 0);
}

TEST(PlainOptionsTest, AlibiTakesTheDistanceFromTheDiagonal) {
  Given given = zeros(2, 3);
  const std::vector<double> slopes = {std::log(2.0)};
  given.problem.slopes = slopes.data();
  const OracleOutput out = given.forward();
  // Query 0 is at key 1, query 1 at key 2.
  const std::vector<double> want = {0.25,    0.5,     0.25,  //
                                    1.0 / 7, 2.0 / 7, 4.0 / 7};
  for (size_t a = 0; a < want.size(); ++a) {
    EXPECT_NEAR(out.weights[a], want[a], kWorkedByHand) << a;
  }
  EXPECT_NEAR(out.lse[0], std::log(2.0), kWorkedByHand);
  given.problem.causal = Causal::kTopLeft;
  EXPECT_NEAR(given.forward().weights[3], 1.0 / 3, kWorkedByHand);
}

TEST(PlainOptionsTest, TheCapComesBeforeOrAfterTheBias) {
  Given given({6, 0}, /*Tq=*/1, {1, 0});
  given.problem.softcap = 2;
  const std::vector<double> bias = {4, 0};
  given.problem.bias = bias.data();
  const auto weight = [](double s) { return 1 / (1 + std::exp(-s)); };
  EXPECT_NEAR(given.forward().o[0], weight(2 * std::tanh(3.0) + 4),
              kWorkedByHand);
  given.problem.softcap_after_bias = true;
  EXPECT_NEAR(given.forward().o[0], weight(2 * std::tanh(5.0)), kWorkedByHand);
  // A cap does not bring back masked keys.
  const Bits mask = {0, 1};
  given.problem.mask = mask.data();
  EXPECT_EQ(given.forward().o[0], 0);
}

TEST(PlainOptionsTest, ASinkTakesItsShareOfTheDenominator) {
  Given given({0, 0}, /*Tq=*/1, {3, 5});
  const std::vector<double> sink = {std::log(6.0)};
  given.problem.sink = sink.data();
  OracleOutput out = given.forward();
  EXPECT_NEAR(out.weights[0], 0.125, kWorkedByHand);
  EXPECT_NEAR(out.o[0], 1, kWorkedByHand);
  EXPECT_NEAR(out.lse[0], std::log(8.0), kWorkedByHand);
  given.problem.sink_in_lse = false;
  EXPECT_NEAR(given.forward().lse[0], std::log(2.0), kWorkedByHand);
  // Far above all keys, and far below.
  const std::vector<double> high = {1000};
  given.problem.sink = high.data();
  out = given.forward();
  EXPECT_EQ(out.o[0], 0);
  EXPECT_NEAR(out.lse[0], std::log(2.0), kWorkedByHand);
  const std::vector<double> low = {-1000};
  given.problem.sink = low.data();
  EXPECT_EQ(given.forward().o[0], 4);
}

// Its softmax is the sink alone.
TEST(PlainOptionsTest, ARowWithoutAKeyHasItsSink) {
  Given given({0, 0}, /*Tq=*/1, {3, 5});
  const Bits mask = {0, 0};
  given.problem.mask = mask.data();
  EXPECT_TRUE(std::isnan(given.forward().o[0]));
  EXPECT_EQ(given.forward().lse[0], -kInfinity);
  std::vector<double> sink = {-7};
  given.problem.sink = sink.data();
  for (const auto forward : {plain_forward, twin_forward}) {
    EXPECT_EQ(forward(given.problem).o[0], 0);
    EXPECT_EQ(forward(given.problem).lse[0], -7);
  }
  const BoundFacts facts(given.problem, given.forward());
  const double bound = compute_bound(facts, generic_precision(), false).lse[0];
  EXPECT_GT(bound, 0);
  EXPECT_LT(bound, 0x1p-16);
  given.problem.sink_in_lse = false;
  for (const auto forward : {plain_forward, twin_forward})
    EXPECT_EQ(forward(given.problem).lse[0], -kInfinity);
  // A sink of weight 0 is none.
  sink[0] = -kInfinity;
  for (const auto forward : {plain_forward, twin_forward})
    EXPECT_TRUE(std::isnan(forward(given.problem).o[0]));
}

// A cap after the bias makes its -infinity finite, and hides nothing.
TEST(PlainOptionsTest, ACapBehindTheBiasMakesInfinityFinite) {
  Given given({0, 0}, /*Tq=*/1, {3, 5});
  EXPECT_EQ(given.forward().o[0], 4);
  const std::vector<double> bias = {0, -kInfinity};
  given.problem.bias = bias.data();
  given.problem.softcap = std::log(3.0);
  for (const bool after : {false, true}) {
    given.problem.softcap_after_bias = after;
    for (const auto forward : {plain_forward, twin_forward})
      EXPECT_NEAR(forward(given.problem).o[0], after ? 3.5 : 3, kWorkedByHand);
  }
}

// NaN beyond the lengths is never touched; rows beyond q_len are not counted.
TEST(PlainOptionsTest, LengthsEndEachMemberOfTheBatch) {
  Problem problem;
  problem.shape.B = 2;
  problem.shape.Tq = 2;
  problem.shape.Tk = 3;
  problem.causal = Causal::kBottomRight;
  const std::vector<double> q = {0, 0, 0, kNaN};
  const std::vector<double> k = {1, 1, 1, 1, 1, kNaN};
  const std::vector<double> v = {2, 4, 6, 10, 20, kNaN};
  const Counts q_len = {2, 1};
  const Counts kv_len = {3, 2};
  problem.q = q.data();
  problem.k = k.data();
  problem.v = v.data();
  problem.q_len = q_len.data();
  problem.kv_len = kv_len.data();
  const OracleOutput out = plain_forward(problem);
  // The only query of member 1 is at the last of its two keys.
  EXPECT_EQ(out.visible, (Counts{2, 3, 2, kRowNotCounted}));
  EXPECT_EQ(out.o[0], 3);
  EXPECT_EQ(out.o[1], 4);
  EXPECT_EQ(out.o[2], 15);
  EXPECT_TRUE(std::isnan(out.o[3]));
  EXPECT_TRUE(std::isnan(out.lse[3]));
  EXPECT_EQ(out.weights[9], 0);
}

TEST(PlainOptionsTest, PackedMembersSeeTheirOwnKeys) {
  Given given = zeros(5, 6);
  given.problem.members = 3;
  const Counts cu_q = {0, 2, 2, 4};
  const Counts cu_k = {0, 3, 4, 5};
  given.problem.cu_q = cu_q.data();
  given.problem.cu_k = cu_k.data();
  given.v[5] = kNaN;
  const OracleOutput all = given.forward();
  EXPECT_EQ(all.visible, (Counts{3, 3, 1, 1, kRowNotCounted}));
  EXPECT_EQ(all.o[0], 1);
  EXPECT_EQ(all.o[2], 4);
  given.problem.causal = Causal::kBottomRight;
  EXPECT_EQ(given.forward().visible, (Counts{2, 3, 0, 1, kRowNotCounted}));
  given.problem.causal = Causal::kTopLeft;
  EXPECT_EQ(given.forward().visible, (Counts{1, 2, 1, 1, kRowNotCounted}));
}

}  // namespace
}  // namespace qkvet::reference::plain_test
