// SPDX-License-Identifier: Apache-2.0
// Single claims of the bound: caps, exact cases, overflow, what a declaration
// buys. bound_kernels_test.cpp holds it against kernels.
#include "reference/bound/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::bound_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kU = 0x1p-24;

PrecisionModel cpu_f32() {
  PrecisionModel model = naive();
  model.dot_sum = SumOrder::kAny;
  model.value_sum = SumOrder::kAny;
  return model;
}

Shape one_head(int64_t Tq, int64_t Tk, int64_t d, int64_t dv) {
  Shape shape;
  shape.Tq = Tq;
  shape.Tk = Tk;
  shape.d = d;
  shape.dv = dv;
  return shape;
}

TestProblem unmasked(Regime regime, const Shape& shape, uint64_t seed = 11) {
  TestRandom random(seed);
  TestProblem p = random_problem(random, regime, shape);
  p.problem.causal = Causal::kNone;
  return p;
}

TEST(BoundTest, OneKeyCostsItsProductAndTheNormalisation) {
  TestProblem p = unmasked(Regime::kNormal, one_head(1, 1, 8, 3));
  const PrecisionModel model = cpu_f32();
  const Bound bound = bound_of(p, model);
  for (int64_t t = 0; t < 3; ++t) {
    const double least = (1 + model.norm_roundings) * kU * std::fabs(p.v[t]);
    EXPECT_GE(bound.o[t], least);
    EXPECT_LE(bound.o[t], least * (1 + 0x1p-16));
  }
  // The weight cancels in o, not in the log-sum-exp.
  EXPECT_GT(bound.lse[0], kU * std::fabs(plain_forward(p.get()).lse[0]));
}

TEST(BoundTest, TheHullCapsHopelessRows) {
  TestProblem p = unmasked(Regime::kNormal, one_head(4, 6, 2, 4));
  for (double& x : p.q) x *= 0x1p20;
  for (double& x : p.k) x *= 0x1p20;
  const OracleOutput oracle = plain_forward(p.get());
  const BoundFacts facts(p.get(), oracle);
  const Bound bound = compute_bound(facts, generic_precision(), true);
  double largest = 0;
  for (double v : p.v) largest = std::max(largest, std::fabs(v));
  // Parts merged by an lse of 2^40 carry a factor exp(u 2^40): the generic
  // model has no useful bound here, but it has one.
  for (double b : bound.o) EXPECT_FALSE(std::isnan(b));
  PrecisionModel declared = cpu_f32();
  const Bound own = compute_bound(facts, declared, true);
  for (size_t i = 0; i < own.o.size(); ++i) {
    EXPECT_LE(own.o[i], facts.reach()[i] * (1 + 64 * kU) + 64 * kU * largest);
    EXPECT_LE(own.weights[i], 1 + 64 * kU);
  }
}

// fma(s, c, -RN(m c)) is no 0 for the maximum itself.
TEST(BoundTest, AFoldedScaleMayOverflowAtAHugeMaximum) {
  TestProblem p = unmasked(Regime::kNormal, one_head(1, 2, 1, 1));
  p.q = {1};
  PrecisionModel folded = cpu_f32();
  folded.scale_stage = ScaleStage::kFolded;
  for (const double score : {0x1p20, 0x1p94}) {
    p.k = {score, 0};
    const Bound own = bound_of(p, cpu_f32());
    const Bound any = bound_of(p, folded);
    EXPECT_LT(own.o[0], kInfinity);
    EXPECT_LT(own.row_sum[0], kInfinity);
    EXPECT_EQ(any.o[0] == kInfinity, score > 0x1p40);
    EXPECT_EQ(any.row_sum[0] == kInfinity, score > 0x1p40);
    EXPECT_EQ(any.lse[0] == kInfinity, score > 0x1p40);
  }
}

TEST(BoundTest, OverflowIsNotJudged) {
  TestProblem p = unmasked(Regime::kNormal, one_head(2, 3, 4, 2));
  TestProblem scores = p;
  scores.q[0] = scores.k[0] = 0x1p64;  // row 0: a product of 2^128
  const Bound of_scores = bound_of(scores, cpu_f32());
  EXPECT_EQ(of_scores.o[0], kInfinity);
  EXPECT_EQ(of_scores.lse[0], kInfinity);
  EXPECT_EQ(of_scores.row_sum[0], kInfinity);
  EXPECT_EQ(of_scores.weights[0], kInfinity);
  EXPECT_LT(of_scores.o[2], kInfinity);

  TestProblem values = p;
  values.v[1] = 0x1.8p127;  // column 1 of key 0
  const Bound of_values = bound_of(values, cpu_f32());
  EXPECT_LT(of_values.o[0], kInfinity);
  EXPECT_EQ(of_values.o[1], kInfinity);
  EXPECT_LT(of_values.lse[0], kInfinity);

  // Merely large is judged.
  TestProblem large = p;
  large.v[1] = 0x1p120;
  EXPECT_LT(bound_of(large, cpu_f32()).o[1], kInfinity);
}

TEST(BoundTest, CountingIsExactButForTheDivision) {
  constexpr int64_t kLong = 5000;
  TestProblem p = unmasked(Regime::kCount, one_head(1, kLong, 2, 4));
  const OracleOutput oracle = plain_forward(p.get());
  const BoundFacts facts(p.get(), oracle);
  PrecisionModel model = cpu_f32();
  model.tile = 16;
  const Bound bound = compute_bound(facts, model, true);
  for (size_t t = 0; t < 4; ++t) {
    const double division = model.norm_roundings * kU * oracle.o[t];
    EXPECT_GE(bound.o[t], division);
    EXPECT_LE(bound.o[t], division * (1 + 0x1p-12));
    // One key more or less is seen at this length.
    EXPECT_LT(bound.o[t], 0.25 / kLong);
  }
  EXPECT_LE(bound.row_sum[0], 4 * kU);

  // Not where parts are merged by their lse, nor where each weight is divided,
  // nor where exp(0) may differ from 1.
  const auto loose = [&](const PrecisionModel& m) {
    return compute_bound(facts, m, false).o[0] > 100 * bound.o[0];
  };
  EXPECT_TRUE(loose(generic_precision()));
  PrecisionModel other = model;
  other.norm_first = true;
  EXPECT_TRUE(loose(other));
  other = model;
  other.exp_exact_at_zero = false;
  EXPECT_TRUE(loose(other));
  // Values that are no integers keep the exact weights only.
  p.v[0] = 0.3F;
  const Bound mixed = bound_of(p, model);
  EXPECT_GT(mixed.o[0], 100 * bound.o[0]);
  EXPECT_EQ(mixed.row_sum[0], bound.row_sum[0]);
}

TEST(BoundTest, LatticeScoresAreExactUnlessQIsScaledFirst) {
  TestProblem p = unmasked(Regime::kLattice, one_head(4, 8, 16, 4));
  PrecisionModel model = cpu_f32();
  model.scale_stage = ScaleStage::kFolded;
  const Bound exact = bound_of(p, model);
  model.scale_stage = ScaleStage::kOnQ;
  const Bound scaled_first = bound_of(p, model);
  model.scale_stage = ScaleStage::kFolded;
  for (size_t j = 0; j < 8; ++j) p.k[16 * j] += 0x1p-22;  // off the grid
  const Bound rounded = bound_of(p, model);
  for (size_t i = 0; i < exact.weights.size(); ++i) {
    EXPECT_LT(2 * exact.weights[i], rounded.weights[i]);
    EXPECT_LT(2 * exact.weights[i], scaled_first.weights[i]);
  }
}

TEST(BoundTest, FlushingToZeroNeedsToBeDeclared) {
  TestProblem p = unmasked(Regime::kTiny, one_head(3, 5, 4, 2));
  PrecisionModel model = cpu_f32();
  const Bound kept = bound_of(p, model);
  model.ftz = true;
  const Bound flushed = bound_of(p, model);
  for (size_t i = 0; i < kept.o.size(); ++i) {
    EXPECT_LT(kept.o[i], 0x1p-140);
    EXPECT_GE(flushed.o[i], 0x1p-126);
  }
}

TEST(BoundTest, EachDeclarationTightens) {
  TestProblem p = unmasked(Regime::kNormal, one_head(8, 64, 64, 8));
  p.problem.scale_given = true;
  const auto total = [&](const PrecisionModel& model) {
    double sum = 0;
    for (double b : bound_of(p, model).o) sum += b;
    return sum;
  };
  const double generic = total(generic_precision());
  PrecisionModel model = cpu_f32();
  const double any = total(model);
  EXPECT_LT(any, generic);
  model.dot_sum = SumOrder::kPairwise;
  const double pairwise = total(model);
  EXPECT_LT(pairwise, any);
  model.dot_sum = SumOrder::kLanes;
  model.dot_lanes = 8;
  const double lanes = total(model);
  EXPECT_LT(lanes, pairwise);
  model.value_sum = SumOrder::kLanes;
  const double ascending = total(model);
  EXPECT_LT(ascending, lanes);
  model.fma = true;
  EXPECT_LT(total(model), ascending);
  p.problem.scale_given = false;
  EXPECT_GT(total(model), 0);
}

TEST(BoundTest, AScaleLeftToTheKernelCostsItsError) {
  TestProblem p = unmasked(Regime::kNormal, one_head(4, 8, 3, 2));
  p.problem.scale_given = true;
  const Bound given = bound_of(p, cpu_f32());
  p.problem.scale_given = false;
  const Bound left = bound_of(p, cpu_f32());
  for (size_t i = 0; i < given.o.size(); ++i) EXPECT_GT(left.o[i], given.o[i]);
}

// A kernel that declares the place of the scale does not apply its roots on
// both sides.
TEST(BoundTest, AScaleThatIsNowhereMayBeTwoRoots) {
  TestProblem p = unmasked(Regime::kNormal, one_head(4, 8, 3, 2));
  p.problem.scale_given = true;
  PrecisionModel on_q = generic_precision();
  on_q.scale_split = false;
  const Bound split = bound_of(p, generic_precision());
  const Bound one_side = bound_of(p, on_q);
  for (size_t i = 0; i < split.o.size(); ++i)
    EXPECT_GT(split.o[i], one_side.o[i]);
  qkvet_precision declared = {};
  declared.struct_size = sizeof declared;
  declared.declared = QKVET_KNOB_SCALE_STAGE;
  declared.scale_stage = QKVET_SCALE_ON_Q;
  EXPECT_EQ(resolve_precision(declared).model, on_q);
}

TEST(BoundTest, RowsWithoutAKeyHaveNoBoundAndNoReach) {
  TestProblem p = unmasked(Regime::kNormal, one_head(3, 2, 2, 1));
  p.problem.causal = Causal::kBottomRight;
  const BoundFacts facts(p.get(), plain_forward(p.get()));
  const Bound bound = compute_bound(facts, generic_precision(), true);
  EXPECT_EQ(bound.o[0], 0);
  EXPECT_EQ(bound.lse[0], 0);
  EXPECT_EQ(facts.reach()[0], 0);
  EXPECT_GT(bound.o[1], 0);
  // The second query sees one key; the other one, masked, is within reach.
  EXPECT_EQ(facts.reach()[1], std::fabs(p.v[0] - p.v[1]));
  EXPECT_EQ(bound.weights[3], 0);
}

// Microseconds of this thread's CPU time, which other programs do not take.
double thread_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) +
         1e-3 * static_cast<double>(time.tv_nsec);
}

// The least that one of several batches takes.
template <class Work>
double least_microseconds(const Work& work) {
  constexpr int kBatches = 20;
  constexpr int kRounds = 50;
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = thread_microseconds();
    for (int i = 0; i < kRounds; ++i) work();
    least = std::min(least, (thread_microseconds() - start) / kRounds);
  }
  return least;
}

// 4 to 6 oracles here: a search that goes through more than the elements once
// or twice would cost T times as much.
TEST(BoundTest, CostsAFewOracles) {
  constexpr double kMostOracles = 15;
  Shape shape = one_head(12, 12, 12, 12);
  shape.H = shape.Hkv = 4;
  TestProblem p = unmasked(Regime::kNormal, shape);
  p.problem.causal = Causal::kTopLeft;
  const Problem& problem = p.get();
  const OracleOutput oracle = plain_forward(problem);
  double sink = 0;
  const double of_oracle =
      least_microseconds([&] { sink += plain_forward(problem).o[0]; });
  const TestControl online = control_named("folded_tile4");
  for (const PrecisionModel& model :
       {cpu_f32(), declared_precision(online), generic_precision()}) {
    const double of_bound = least_microseconds([&] {
      const BoundFacts facts(problem, oracle);
      sink += compute_bound(facts, model, /*want_weights=*/false).o[0];
    });
    std::printf("facts and bound: %.1f us, oracle: %.1f us\n", of_bound,
                of_oracle);
    EXPECT_LT(of_bound, kMostOracles * of_oracle);
  }
  EXPECT_NE(sink, 0);
}

}  // namespace
}  // namespace qkvet::reference::bound_test
