// SPDX-License-Identifier: Apache-2.0
// The bound of attention with inputs that are known up to given errors: it
// holds for every correct kernel and every admissible input, it comes near the
// effect of such inputs, and it is the ordinary bound if the errors are 0.
#include <gtest/gtest.h>

#include "core/base/at_night.h"
#include "reference/testing/test_problems.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::uncertain_inputs_test {
namespace {

// Errors of every size, some of them 0; half of them are taken in full.
void disturb(TestRandom& random, double size, std::vector<double>& x,
             std::vector<double>& off) {
  off.resize(x.size());
  const bool none = random.below(4) == 0;
  for (size_t i = 0; i < x.size(); ++i) {
    off[i] = none ? 0 : size * random.uniform() * (1e-3 + std::fabs(x[i]));
    if (random.below(5) == 0) off[i] = 0;
    const double part = random.below(2) == 0 ? 1 : random.uniform();
    x[i] += (random.below(2) == 0 ? part : -part) * off[i];
    // Room for the rounding of this very sum.
    off[i] *= 1 + 1e-15;
  }
}

TestTrial random_uncertain(TestRandom& random, Regime regime,
                           const Shape& shape, Dtype storage) {
  TestProblem p = random_problem(random, regime, shape);
  store(p, storage);
  TestTrial all{p};
  const double size = std::pow(10, -1 - 7 * random.uniform());
  disturb(random, size, all.truth.q, all.dq);
  disturb(random, size, all.truth.k, all.dk);
  disturb(random, size, all.truth.v, all.dv);
  return all;
}

std::vector<TestControl> all_kernels() {
  std::vector<TestControl> all = f32_controls();
  for (const TestControl& kernel : half_controls()) all.push_back(kernel);
  return all;
}

class UncertainInputsTest : public testing::TestWithParam<size_t> {};

TEST_P(UncertainInputsTest, StaysWithinTheBoundAndComesNearIt) {
  const TestControl kernel = all_kernels()[GetParam()];
  expect_within_and_near(
      kernel, taken(850, 3), 0.3,
      [&](TestRandom& random, Regime regime, const Shape& shape) {
        return random_uncertain(random, regime, shape, kernel.storage);
      });
}

INSTANTIATE_TEST_SUITE_P(AllKernels, UncertainInputsTest,
                         testing::Range(size_t{0}, all_kernels().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return all_kernels()[kernel.param].name();
                         });

TEST(UncertainInputsClaimsTest, ErrorsOfZeroChangeNothing) {
  TestRandom random(21);
  for (int i = 0; i < 10 * kRegimeCount; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    const Shape shape = random_shape(random, 12);
    TestProblem p = random_problem(random, regime, shape);
    const OracleOutput oracle = plain_forward(p.get());
    const std::vector<double> dq(p.q.size());
    const std::vector<double> dk(p.k.size());
    const std::vector<double> dv(p.v.size());
    const BoundFacts exact(p.get(), oracle);
    const BoundFacts zeros(p.get(), oracle, {dq.data(), dk.data(), dv.data()});
    for (const TestControl& kernel : f32_controls()) {
      const PrecisionModel model = declared_precision(kernel);
      const Bound want = compute_bound(exact, model, true);
      const Bound got = compute_bound(zeros, model, true);
      ASSERT_EQ(got.o, want.o);
      ASSERT_EQ(got.lse, want.lse);
      ASSERT_EQ(got.weights, want.weights);
    }
  }
}

// Kernels that read inputs further off than declared.
TEST(UncertainInputsClaimsTest, LargerErrorsThanDeclaredExceedTheBound) {
  constexpr int kProblems = 340;
  const TestControl kernel = control_named("naive");
  TestRandom random(22);
  int exceeding = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    const Shape shape = random_shape(random, 12);
    TestTrial p = random_uncertain(random, regime, shape, Dtype::kF32);
    for (auto* off : {&p.dq, &p.dk, &p.dv}) {
      for (double& x : *off) x /= 8;
    }
    const OracleOutput oracle = plain_forward(p.truth.get());
    const BoundFacts facts(p.truth.get(), oracle, p.errors());
    const Bound bound = compute_bound(facts, declared_precision(kernel), false);
    const TestOutput got = run_control(kernel, p.read.get());
    exceeding += !(worst_ratio(got.o, oracle.o, bound.o) <= 1);
  }
  EXPECT_GT(exceeding, kProblems / 5);
  std::printf("errors eight times as large: %d of %d\n", exceeding, kProblems);
}

struct OneRow {
  Shape shape;
  std::vector<double> q, k, v;
  Problem problem() const {
    Problem row;
    row.shape = shape;
    row.scale_given = true;
    row.q = q.data();
    row.k = k.data();
    row.v = v.data();
    return row;
  }
  Bound bound(const InputErrors& errors) const {
    const BoundFacts facts(problem(), plain_forward(problem()), errors);
    return compute_bound(facts, naive(), true);
  }
};

// The largest score may fall and a negligible one rise until both matter: what
// can be left of the sum of weights is far below an ulp of that sum.
TEST(UncertainInputsClaimsTest, SmallWeightsMayBecomeLargeOnes) {
  OneRow row;
  row.shape.Tk = 2;
  row.q = {1};
  row.k = {38, -46};
  row.v = {0, 0};
  const double dk[] = {37.2, 45};
  const Bound bound = row.bound({nullptr, dk, nullptr});
  OneRow read = row;
  read.k = {38 - 37.2, -46 + 45};
  const OracleOutput want = plain_forward(row.problem());
  const OracleOutput got = plain_forward(read.problem());
  for (int j = 0; j < 2; ++j) {
    const double distance = std::fabs(got.weights[j] - want.weights[j]);
    EXPECT_LE(distance, bound.weights[j]) << j;
  }
}

TEST(UncertainInputsClaimsTest, ValuesMoveTheOutputByTheirMeanError) {
  OneRow row;
  row.shape.Tk = 2;
  row.q = {0};
  row.k = {1, 1};
  row.v = {1, 3};
  const double exact = row.bound({}).o[0];
  const double dv[] = {0.25, 0.75};
  EXPECT_NEAR(row.bound({nullptr, nullptr, dv}).o[0], exact + 0.5, 1e-6);
  // q = 0 is exact only as long as it is known.
  const double dq[] = {1e-3};
  EXPECT_GT(row.bound({dq, nullptr, nullptr}).o[0], 1e-3);
  EXPECT_LT(row.bound({dq, nullptr, nullptr}).o[0], 3e-3);
}

TEST(UncertainInputsClaimsTest, NothingIsJudgedWhereAnInputMayBeInfinite) {
  OneRow row;
  row.shape.Tk = 2;
  row.q = {1};
  row.k = {1, 0};
  row.v = {1, 3};
  const double off[] = {HUGE_VAL, 0};
  EXPECT_TRUE(std::isinf(row.bound({off, nullptr, nullptr}).o[0]));
  EXPECT_TRUE(std::isinf(row.bound({nullptr, off, nullptr}).o[0]));
  EXPECT_TRUE(std::isinf(row.bound({nullptr, nullptr, off}).o[0]));
}

}  // namespace
}  // namespace qkvet::reference::uncertain_inputs_test
