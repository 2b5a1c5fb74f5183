// SPDX-License-Identifier: Apache-2.0
// Intermediate results rounded to half, and exponentials of a declared error: a
// kernel needs its declaration, and the declaration widens the bound as much as
// necessary and no more.
#include <gtest/gtest.h>

#include "reference/testing/test_options.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::bound_knobs_test {
namespace {

constexpr uint64_t kKnobs = QKVET_KNOB_SCORE_DTYPE | QKVET_KNOB_OPERAND_DTYPE |
                            QKVET_KNOB_LSE_DTYPE | QKVET_KNOB_SINK_DTYPE |
                            QKVET_KNOB_SOFTMAX_DTYPE |
                            QKVET_KNOB_DOT_SUM_DTYPE |
                            QKVET_KNOB_VALUE_SUM_DTYPE | QKVET_KNOB_LOG_ERROR;

TestProblem stored_problem(TestRandom& random, int i, Dtype storage) {
  const auto regime = static_cast<Regime>(i % kRegimeCount);
  const Shape shape = random_shape(random, largest_extent(i));
  TestProblem p = random_option_problem(random, regime, shape);
  store(p, storage);
  return p;
}

// The controls that declare one of the knobs, or a coarse exponential.
std::vector<TestControl> coarse_controls() {
  std::vector<TestControl> all;
  for (const auto& list : {f32_controls(), half_controls()}) {
    for (const TestControl& one : list) {
      const qkvet_precision& p = *one.kernel->precision;
      const bool exp = (p.declared & QKVET_KNOB_EXP_ERROR) != 0 &&
                       p.exp_error > generic_precision().exp_error;
      if ((p.declared & kKnobs) != 0 || exp) all.push_back(one);
    }
  }
  return all;
}

TEST(BoundKnobsTest, NoneOfThemHoldsWithoutItsDeclaration) {
  constexpr int kProblems = 340;
  const std::vector<TestControl> controls = coarse_controls();
  EXPECT_GE(controls.size(), 8u);
  for (const TestControl& kernel : controls) {
    qkvet_precision plain = *kernel.kernel->precision;
    // Sums in half throughout declare a number, too.
    plain.declared &= ~(kKnobs | QKVET_KNOB_ACCUMULATOR_U);
    plain.exp_error = 0x1p-23;
    const PrecisionModel model = for_storage(resolve_precision(plain).model,
                                             kernel.storage, kernel.storage);
    TestRandom random(40);
    int exceeding = 0;
    for (int i = 0; i < kProblems; ++i) {
      TestProblem p = stored_problem(random, i, kernel.storage);
      const OracleOutput oracle = plain_forward(p.get());
      const BoundFacts facts(p.get(), oracle);
      const TestOutput got = run_control(kernel, p.get());
      const Bound bound = compute_bound(facts, model, true);
      exceeding += !(ratios(oracle, bound, got, p.problem.shape).worst() <= 1);
    }
    EXPECT_GT(exceeding, kProblems / 4) << kernel.name();
    std::printf("%-26s beyond the plain bound: %d of %d\n",
                kernel.name().c_str(), exceeding, kProblems);
  }
}

// Logarithms and tanh that are worse than those of f32: within what is declared
// of them, near it, and beyond a fourth of it.
TEST(BoundKnobsTest, FunctionsAreAsBadAsTheyAreDeclared) {
  constexpr int kProblems = 680;
  for (const char* name :
       {"coarse_log", "coarse_log_split3_lse", "coarse_tanh", "f16_tanh"}) {
    const TestControl kernel = control_named(name);
    const PrecisionModel declared = declared_precision(kernel);
    PrecisionModel fourth = declared;
    fourth.log_error /= 4;
    fourth.tanh_error /= 4;
    fourth.tanh_floor /= 4;
    TestRandom random(41);
    double worst = 0;
    int exceeding = 0;
    for (int i = 0; i < kProblems; ++i) {
      TestProblem p = stored_problem(random, i, kernel.storage);
      if (declared.log_error == 0) p.problem.softcap = 1 + i % 7;
      const OracleOutput oracle = plain_forward(p.get());
      const BoundFacts facts(p.get(), oracle);
      const TestOutput got = run_control(kernel, p.get());
      const Shape& shape = p.problem.shape;
      const Ratios own =
          ratios(oracle, compute_bound(facts, declared, true), got, shape);
      ASSERT_TRUE(own.worst() <= 1) << name << ", problem " << i << ": " << own;
      worst = std::max(worst, own.worst());
      exceeding +=
          !(ratios(oracle, compute_bound(facts, fourth, true), got, shape)
                .worst() <= 1);
    }
    EXPECT_GT(worst, 0.7) << name;
    EXPECT_GT(exceeding, kProblems / 20) << name;
    std::printf(
        "%-26s at most %.3f of the bound; beyond that of a fourth: %d "
        "of %d\n",
        name, worst, exceeding, kProblems);
  }
}

TestProblem small(int64_t Tk, int64_t d) {
  Shape shape;
  shape.Tk = Tk;
  shape.d = d;
  TestRandom random(3);
  TestProblem p = random_problem(random, Regime::kNormal, shape);
  p.problem.causal = Causal::kNone;
  p.problem.scale_given = true;
  p.problem.scale = 1;
  return p;
}

Rounding half(Dtype dtype) {
  qkvet_precision p{};
  p.struct_size = sizeof p;
  p.declared = QKVET_KNOB_SCORE_DTYPE;
  p.score_dtype = dtype_to_abi(dtype);
  return resolve_precision(p).model.score;
}

// With one key ln 1 is 0, and all that is left is how far it may be off.
TEST(BoundKnobsClaimsTest, ALogarithmIsOffByWhatItDeclares) {
  TestProblem one = small(1, 3);
  PrecisionModel model = naive();
  const Bound exact = bound_of(one, model);
  model.log_error = 0x1p-11;
  const Bound coarse = bound_of(one, model);
  EXPECT_EQ(coarse.o, exact.o);
  EXPECT_NEAR(coarse.lse[0], 0x1p-11, 0x1p-11 * 0.01);
  // Beyond e, in proportion: ln 64 = 4.16.
  TestProblem many = small(64, 1);
  many.q = {0};
  EXPECT_NEAR(bound_of(many, model).lse[0], 0x1p-11 * std::log(64.0),
              0x1p-11 * 0.01);
  // A merge by lse weighs parts by them, and its weights need not add up to 1.
  model.merge = Merge::kLse;
  model.splits = 2;
  EXPECT_GT(bound_of(many, model).row_sum[0], 2 * 0x1p-11);
  model.log_error = 0x1p-24;
  EXPECT_LT(bound_of(many, model).row_sum[0], 0x1p-15);
}

TEST(BoundKnobsClaimsTest, WhatTheTypeHoldsIsNotRounded) {
  TestProblem p = small(5, 3);
  store(p, Dtype::kBf16);
  PrecisionModel model = naive();
  const Bound exact = bound_of(p, model);
  model.operand = half(Dtype::kBf16);
  EXPECT_EQ(bound_of(p, model).o, exact.o);
  EXPECT_EQ(bound_of(p, model).lse, exact.lse);
  p.v[0] += 0x1p-20;
  EXPECT_GT(bound_of(p, model).o[0], 0x1p-21 * exact.weights[0]);
  // A scaled one may be a number that it does not hold.
  model.scale_stage = ScaleStage::kOnQ;
  EXPECT_GT(bound_of(p, model).lse[0], 1e3 * exact.lse[0]);
}

TEST(BoundKnobsClaimsTest, UncertainOperandsRoundOnTop) {
  TestProblem p = small(4, 3);
  const std::vector<double> dq(p.q.size(), 1e-3);
  const BoundFacts facts(p.get(), plain_forward(p.get()),
                         {dq.data(), nullptr, nullptr});
  PrecisionModel model = naive();
  const Bound read = compute_bound(facts, model, false);
  model.operand = half(Dtype::kBf16);
  const Bound rounded = compute_bound(facts, model, false);
  EXPECT_GT(rounded.lse[0], read.lse[0] + 0x1p-9);
  EXPECT_LT(rounded.lse[0], 1);
}

TEST(BoundKnobsClaimsTest, ScoresThatF16CannotHoldAreNotJudged) {
  TestProblem p = small(3, 1);
  PrecisionModel model = naive();
  model.score = half(Dtype::kF16);
  p.q = {300};
  p.k = {1, 2, 300};
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  model.score = half(Dtype::kBf16);
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
  // A product that a smaller scale keeps in the type could have been scaled
  // before.
  model.score = half(Dtype::kF16);
  p.problem.scale = 0x1p-3;
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
  // -infinity, far below the maximum, is as good as any number.
  p.problem.scale = 1;
  p.k = {1, 2, -300};
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
  p.k = {-301, -302, -300};
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
}

TEST(BoundKnobsClaimsTest, SumsThatF16CannotHoldAreNotJudged) {
  TestProblem p = small(3, 2);
  PrecisionModel model = naive();
  model.dot = half(Dtype::kF16);
  p.q = {300, 1};
  p.k = {1, 2, 2, 3, 300, 1};
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  p.k = {1, 2, 2, 3, 100, 1};
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
  // Cancellation helps no partial sum.
  p.q = {300, 300};
  p.k = {1, 2, 2, 3, 300, -300};
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  // A scale after the sum does not help, one on q does.
  p.problem.scale = 0x1p-3;
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  model.scale_stage = ScaleStage::kOnQ;
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
  model.dot = half(Dtype::kBf16);
  model.scale_stage = ScaleStage::kAfterDot;
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
}

TEST(BoundKnobsClaimsTest, SumsOfValuesEndWhereTheirTypeDoes) {
  TestProblem p = small(2, 1);
  PrecisionModel model = naive();
  const double lse = bound_of(p, model).lse[0];
  model.value = half(Dtype::kF16);
  p.v = {40000, 40000};
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  // Scores do not depend on it.
  EXPECT_EQ(bound_of(p, model).lse[0], lse);
  // Divided weights add up to one.
  model.norm_first = true;
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
  model.norm_first = false;
  // Numbers below half its least number may be lost.
  p.v = {0x1p-26, 0x1p-26};
  EXPECT_GT(bound_of(p, model).o[0], 0x1p-26);
  EXPECT_LT(bound_of(p, model).o[0], 0x1p-21);
}

TEST(BoundKnobsClaimsTest, SumsInHalfCountAsFarAsTheyAreExact) {
  for (const int64_t keys : {2048, 2052}) {
    TestProblem p = small(keys, 1);
    p.q = {0};
    for (double& v : p.v) v = 1;
    PrecisionModel model = naive();
    const double exact = bound_of(p, model).o[0];
    model.value = half(Dtype::kF16);
    const double kept = bound_of(p, model).o[0];
    EXPECT_EQ(std::isinf(kept), keys > 2048);
    if (keys <= 2048) {
      EXPECT_NEAR(kept, exact, 0.01 * exact);  // of second order
    }
  }
}

// Products on a grid that the type holds are added without an error.
TEST(BoundKnobsClaimsTest, SumsInHalfAreExactOnAGrid) {
  TestProblem p = small(2, 2);
  const auto grown = [&p] {
    PrecisionModel model = naive();
    const double exact = bound_of(p, model).lse[0];
    model.dot = half(Dtype::kF16);
    return bound_of(p, model).lse[0] / exact;
  };
  p.q = {3, 5};
  p.k = {100, 7, 1, 2};
  EXPECT_LT(grown(), 1.01);
  p.q = {30, 5};  // 3035 is no number of 11 bits
  EXPECT_GT(grown(), 100);
  p.q = {0x1p-24, 0};
  p.k = {1, 7, 2, 2};
  EXPECT_LT(grown(), 1.01);
  p.k = {0.5, 7, 1, 2};  // 2^-25 is none of f16
  EXPECT_GT(grown(), 1.05);
}

TEST(BoundKnobsClaimsTest, AScaleOfItsOwnStoresTwice) {
  TestProblem p = small(4, 3);
  for (double& k : p.k) k = std::fabs(k) + 20;
  for (double& q : p.q) q = std::fabs(q) + 1;
  PrecisionModel model = naive();
  model.score = half(Dtype::kBf16);
  const double twice = bound_of(p, model).lse[0];
  model.scale_stage = ScaleStage::kFolded;
  EXPECT_NEAR(bound_of(p, model).lse[0], twice / 2, 0.01 * twice);
}

TEST(BoundKnobsClaimsTest, LseIsRoundedOnce) {
  TestProblem p = small(4, 3);
  const double lse = std::fabs(plain_forward(p.get()).lse[0]);
  PrecisionModel model = naive();
  const Bound exact = bound_of(p, model);
  model.lse = half(Dtype::kBf16);
  const Bound rounded = bound_of(p, model);
  EXPECT_EQ(rounded.o, exact.o);
  EXPECT_NEAR(rounded.lse[0] - exact.lse[0], 0x1p-8 * lse, 1e-5 * lse);
}

TEST(BoundKnobsClaimsTest, SinksAreOffByWhatTheirTypeLeaves) {
  TestProblem p = small(4, 3);
  p.sink = {1};
  PrecisionModel model = naive();
  const Bound exact = bound_of(p, model);
  model.sink = half(Dtype::kF16);
  EXPECT_EQ(bound_of(p, model).o, exact.o);
  p.sink = {1 + 0x1p-12};
  EXPECT_GT(bound_of(p, model).lse[0], exact.lse[0] + 0x1p-18);
  p.sink = {70000};
  EXPECT_TRUE(std::isinf(bound_of(p, model).o[0]));
  p.sink = {-70000};
  EXPECT_FALSE(std::isinf(bound_of(p, model).o[0]));
}

// eps enters everything once: a key against all others, and their sum.
TEST(BoundKnobsClaimsTest, ACoarseExponentialEntersOnce) {
  TestProblem p = small(2, 1);
  p.q = {0};
  p.problem.softcap = 1;  // no exact rule
  p.v = {0, 1};
  PrecisionModel model = naive();
  for (const double eps : {0x1p-14, 0x1p-10}) {
    model.exp_error = eps;
    const Bound bound = bound_of(p, model);
    // 1/2 e^eps / (1/2 e^eps + 1/2 e^-eps), off from 1/2 by eps/2.
    EXPECT_GT(bound.o[0], 0.99 * eps / 2);
    EXPECT_LT(bound.o[0], 1.02 * eps);
    EXPECT_GT(bound.lse[0], eps);
    EXPECT_LT(bound.lse[0], 1.02 * eps);
    EXPECT_GT(bound.weights[0], 0.99 * eps / 2);
    EXPECT_LT(bound.weights[0], 1.02 * eps);
  }
}

}  // namespace
}  // namespace qkvet::reference::bound_knobs_test
