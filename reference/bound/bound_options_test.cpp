// SPDX-License-Identifier: Apache-2.0
// Kernels with options: correct ones stay within the bound of their declaration
// and of the generic model, and come near it.
#include <gtest/gtest.h>

#include "core/base/at_night.h"
#include "reference/testing/test_options.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::bound_options_test {
namespace {

class BoundOptionsTest : public testing::TestWithParam<size_t> {};

TEST_P(BoundOptionsTest, StaysWithinTheBoundAndComesNearIt) {
  const TestControl kernel = option_controls()[GetParam()];
  const auto draw = [&](TestRandom& random, Regime regime, const Shape& shape) {
    TestProblem p = random_option_problem(random, regime, shape);
    store(p, kernel.storage);
    return TestTrial{p};
  };
  expect_within_and_near(kernel, taken(2040, 3),
                         cut_off_alone(kernel) ? 0.125 : 0.25, draw);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, BoundOptionsTest,
                         testing::Range(size_t{0}, option_controls().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return option_controls()[kernel.param].name();
                         });

// Kernels that get another option than the oracle: the number of problems in
// which they exceed the bound of their declaration.
int count_exceeding(TestOption option, void (*change)(TestProblem& p)) {
  constexpr int kProblems = 170;
  const TestControl kernel = control_named("online4");
  TestRandom random(9);
  int exceeding = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestProblem p =
        option_problem(random, regime, random_shape(random, 12), {option});
    const OracleOutput oracle = plain_forward(p.get());
    const BoundFacts facts(p.get(), oracle);
    const Bound bound = compute_bound(facts, declared_precision(kernel), true);
    change(p);
    const TestOutput got = run_control(kernel, p.get());
    const Ratios r = ratios(oracle, bound, got, p.problem.shape);
    exceeding += !(r.worst() <= 1);
  }
  return exceeding;
}

void scale_all(std::vector<double>& x, double by) {
  for (double& value : x) value *= by;
}

TEST(BoundOptionsFaultsTest, WrongKernelsExceedTheBound) {
  for (int i = 0; i < kTestOptionCount; ++i)
    EXPECT_EQ(count_exceeding(static_cast<TestOption>(i), [](TestProblem&) {}),
              0)
        << i;
  const struct {
    TestOption option;
    void (*change)(TestProblem& p);
  } faults[] = {
      {TestOption::kWindow, [](TestProblem& p) { ++p.problem.window->left; }},
      {TestOption::kMask, [](TestProblem& p) { p.mask.back() ^= 1; }},
      {TestOption::kBias,
       [](TestProblem& p) { scale_all(p.bias, 1 + 0x1p-10); }},
      {TestOption::kAlibi,
       [](TestProblem& p) { scale_all(p.slopes, 1 + 0x1p-10); }},
      {TestOption::kSoftcap,
       [](TestProblem& p) { p.problem.softcap *= 1 + 0x1p-8; }},
      {TestOption::kSink,
       [](TestProblem& p) { scale_all(p.sink, 1 + 0x1p-10); }},
      {TestOption::kSink,
       [](TestProblem& p) { p.problem.sink_in_lse = !p.problem.sink_in_lse; }},
      {TestOption::kNegativeScale,
       [](TestProblem& p) { p.problem.scale = -p.problem.scale; }},
  };
  for (const auto& [option, change] : faults)
    EXPECT_GT(count_exceeding(option, change), 20) << static_cast<int>(option);
}

// One head, plain numbers.
TestProblem small(int64_t Tq, int64_t Tk, int64_t d, int64_t dv) {
  Shape shape;
  shape.Tq = Tq;
  shape.Tk = Tk;
  shape.d = d;
  shape.dv = dv;
  TestRandom random(3);
  TestProblem p = random_problem(random, Regime::kNormal, shape);
  p.problem.causal = Causal::kNone;
  return p;
}

TEST(BoundOptionsClaimsTest, CountingIsExactUnderAMask) {
  constexpr int64_t kLong = 5000;
  TestProblem p = small(1, kLong, 2, 1);
  std::fill(p.q.begin(), p.q.end(), 0.0);
  for (size_t j = 0; j < p.v.size(); ++j) p.v[j] = double(j % 2);
  p.mask.assign(kLong, 1);
  for (int64_t j = 0; j < kLong; j += 3) p.mask[j] = 0;
  EXPECT_LT(bound_of(p, naive()).o[0], 4 * 0x1p-24);
  p.slopes = {0x1p-8};
  EXPECT_GT(bound_of(p, naive()).o[0], 64 * 0x1p-24);
}

// A finite mask is as good as a true one for all other keys.
TEST(BoundOptionsClaimsTest, FiniteMasksCostTheOtherKeysNothing) {
  TestProblem masked = small(1, 12, 8, 3);
  masked.mask.assign(12, 1);
  masked.mask[5] = masked.mask[11] = 0;
  const Bound exact = bound_of(masked, naive());
  for (const double hidden :
       {-1e9, double{std::numeric_limits<float>::lowest()}}) {
    TestProblem biased = masked;
    biased.mask.clear();
    biased.bias.assign(12, 0.0);
    biased.bias[5] = biased.bias[11] = hidden;
    const Bound bound = bound_of(biased, naive());
    for (size_t t = 0; t < 3; ++t) EXPECT_LT(bound.o[t], 1.2 * exact.o[t]);
    EXPECT_LT(bound.lse[0], 1.2 * exact.lse[0]);
    EXPECT_LT(bound.weights[5], 1e-30);
  }
}

// The lowest f64 as well, though twice its size is no number.
TEST(BoundOptionsClaimsTest, TheLowestF64CostsTheOtherKeysNothing) {
  TestProblem masked = small(1, 12, 8, 3);
  masked.mask.assign(12, 1);
  masked.mask[5] = masked.mask[11] = 0;
  TestProblem biased = masked;
  biased.mask.clear();
  biased.bias.assign(12, 0.0);
  biased.bias[5] = biased.bias[11] = std::numeric_limits<double>::lowest();
  for (const PrecisionModel& any : {naive(), generic_precision()}) {
    const PrecisionModel model = for_storage(any, Dtype::kF64, Dtype::kF64);
    const Bound exact = bound_of(masked, model);
    const Bound bound = bound_of(biased, model);
    for (size_t t = 0; t < 3; ++t) EXPECT_LT(bound.o[t], 1.2 * exact.o[t]);
    EXPECT_LT(bound.weights[5], 1e-30);
  }
  // The control: where every key has it, nothing is left of the scores.
  biased.bias.assign(12, std::numeric_limits<double>::lowest());
  const PrecisionModel generic =
      for_storage(generic_precision(), Dtype::kF64, Dtype::kF64);
  EXPECT_FALSE(bound_of(biased, generic).o[0] < 0.01);
}

TEST(BoundOptionsClaimsTest, NothingBeyondTheLengthsIsRead) {
  TestProblem p = small(3, 6, 4, 2);
  p.q_len = {2};
  p.kv_len = {4};
  const Bound clean = bound_of(p, generic_precision());
  const BoundFacts facts(p.get(), plain_forward(p.get()));
  p.v[4 * 2] = 1e6;
  const BoundFacts far(p.get(), plain_forward(p.get()));
  EXPECT_EQ(far.reach(), facts.reach());
  poison_rest(p);
  const BoundFacts poisoned(p.get(), plain_forward(p.get()));
  EXPECT_EQ(poisoned.reach(), facts.reach());
  const Bound bound = bound_of(p, generic_precision());
  EXPECT_EQ(bound.o, clean.o);
  EXPECT_EQ(bound.lse, clean.lse);
  EXPECT_EQ(bound.weights, clean.weights);
  // The row that is not counted.
  EXPECT_EQ(bound.o.back(), 0);
  // A masked key within the length counts.
  p.mask.assign(18, 1);
  for (int64_t i = 0; i < 3; ++i) p.mask[i * 6 + 3] = 0;
  p.v[3 * 2] = 1e6;
  const BoundFacts masked(p.get(), plain_forward(p.get()));
  EXPECT_GT(masked.reach()[0], 9e5);
}

TEST(BoundOptionsClaimsTest, WhatIsDeclaredBuysABetterBound) {
  TestProblem p = small(2, 9, 4, 2);
  p.problem.scale_given = true;
  p.bias.assign(18, 100.0);
  p.slopes = {0.5};
  PrecisionModel model = naive();
  const double sharp = bound_of(p, model).o[0];
  model.scale_stage = ScaleStage::kFolded;
  EXPECT_GT(bound_of(p, model).o[0], sharp);
  EXPECT_GT(bound_of(p, generic_precision()).o[0], sharp);
  p.bias.clear();
  p.slopes.clear();
  p.problem.softcap = 10;
  model = naive();
  const double accurate = bound_of(p, model).o[0];
  model.tanh_error = 0x1p-11;
  EXPECT_GT(bound_of(p, model).o[0], 20 * accurate);
}

TEST(BoundOptionsClaimsTest, OverflowIsNotJudged) {
  TestProblem p = small(1, 3, 4, 2);
  p.bias = {2e38, 0, 0};
  EXPECT_TRUE(std::isinf(bound_of(p, naive()).o[0]));
  p.bias = {-3e38, -3e38, -3e38};
  PrecisionModel in_base_2 = naive();
  in_base_2.ref_roundings = 1;
  EXPECT_TRUE(std::isinf(bound_of(p, in_base_2).o[0]));
  EXPECT_TRUE(std::isinf(bound_of(p, generic_precision()).o[0]));
  p.bias = {-3e38, 0, 0};
  EXPECT_FALSE(std::isinf(bound_of(p, naive()).o[0]));
  p.problem.softcap = 1e-37;
  EXPECT_TRUE(std::isinf(bound_of(p, naive()).o[0]));
}

// A row with a constant bias is judged whatever the constant is. If it absorbs
// the scores, only the hull of V is left of them.
TEST(BoundOptionsClaimsTest, AMaskedRowIsJudged) {
  TestProblem p = small(1, 12, 8, 3);
  const Bound plain = bound_of(p, naive());
  const OracleOutput truth = plain_forward(p.get());
  for (const double number : {-1e4, -65504.0, -1e9, -1e30,
                              double{std::numeric_limits<float>::lowest()}}) {
    p.bias.assign(12, number);
    const BoundFacts facts(p.get(), plain_forward(p.get()));
    const Bound bound = compute_bound(facts, naive(), false);
    for (size_t t = 0; t < 3; ++t) {
      double low = HUGE_VAL, high = -HUGE_VAL;
      for (size_t j = 0; j < 12; ++j) {
        low = std::min(low, p.v[j * 3 + t]);
        high = std::max(high, p.v[j * 3 + t]);
      }
      EXPECT_GT(bound.o[t], plain.o[t]) << number;
      EXPECT_LT(bound.o[t],
                1.01 * std::max(high - truth.o[t], truth.o[t] - low))
          << number;
    }
    EXPECT_FALSE(std::isinf(bound.lse[0])) << number;
    // Absorption is derived: a float that is that large has such steps.
    if (number == -1e4) {
      EXPECT_LT(bound.o[0], 0.01);
    }
  }
}

TEST(BoundOptionsClaimsTest, BaseTwoPaysForItsConversion) {
  constexpr double kLog2E = 0x1.71547652b82fep0;
  const PrecisionModel model = naive();
  EXPECT_EQ(lse_in_base2(3), 3 * kLog2E);
  const double bound = lse_bound_in_base2(3, 1e-6, model);
  EXPECT_GT(bound, kLog2E * (1e-6 + 2 * 0x1p-24 * 3));
  EXPECT_LT(bound, kLog2E * (1e-6 + 2.01 * 0x1p-24 * 3));
  EXPECT_EQ(lse_bound_in_base2(-HUGE_VAL, 0, model), 0);
  // Every test kernel, converted.
  TestRandom random(5);
  for (int i = 0; i < 340; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestProblem p = random_problem(random, regime, random_shape(random, 12));
    const OracleOutput oracle = plain_forward(p.get());
    const BoundFacts facts(p.get(), oracle);
    const Bound all = compute_bound(facts, model, false);
    const TestOutput got = run_control(control_named("naive"), p.get());
    for (size_t r = 0; r < got.lse.size(); ++r) {
      if (oracle.visible[r] <= 0 || std::isinf(all.lse[r])) continue;
      const float natural = static_cast<float>(got.lse[r]);
      const double off = natural * 0x1.715476p0f - lse_in_base2(oracle.lse[r]);
      const double most = lse_bound_in_base2(oracle.lse[r], all.lse[r], model);
      ASSERT_LE(std::fabs(off), most);
      // A natural one is no base-2 one.
      if (std::fabs(natural) > 1) {
        ASSERT_GT(std::fabs(natural - lse_in_base2(oracle.lse[r])), most);
      }
    }
  }
}

}  // namespace
}  // namespace qkvet::reference::bound_options_test
