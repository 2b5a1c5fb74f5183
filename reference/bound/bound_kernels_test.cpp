// SPDX-License-Identifier: Apache-2.0
// The bound holds for every correct kernel that the tests can emulate, comes
// close to their errors where the data is adversarial, and is exceeded by
// kernels that are wrong.
#include <gtest/gtest.h>

#include "core/base/at_night.h"
#include "reference/testing/test_problems.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::bound_kernels_test {
namespace {

// 1,020 problems of every regime for each kernel, judged by its declared model
// and by the generic one.
class BoundKernelsTest : public testing::TestWithParam<size_t> {};

TEST_P(BoundKernelsTest, StaysWithinTheBoundAndComesNearIt) {
  const TestControl kernel = f32_controls()[GetParam()];
  const auto draw = [](TestRandom& random, Regime regime, const Shape& shape) {
    return TestTrial{random_problem(random, regime, shape)};
  };
  const Ratios all = expect_within_and_near(kernel, taken(1020, 3), 0.3, draw);
  EXPECT_TRUE(all.near_beside_o()) << kernel.name();
}

INSTANTIATE_TEST_SUITE_P(AllKernels, BoundKernelsTest,
                         testing::Range(size_t{0}, f32_controls().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return f32_controls()[kernel.param].name();
                         });

// Faults that must exceed the bound of their model.
int count_exceeding(const TestControl& kernel, const char* seeded,
                    int problems) {
  TestRandom random(9);
  int exceeding = 0;
  for (int i = 0; i < problems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestProblem p = random_problem(random, regime, random_shape(random, 12));
    const OracleOutput oracle = plain_forward(p.get());
    const BoundFacts facts(p.get(), oracle);
    const Bound bound = compute_bound(facts, declared_precision(kernel), false);
    const TestOutput got = run_control(kernel, p.get(), seeded);
    exceeding += !(worst_ratio(got.o, oracle.o, bound.o) <= 1);
  }
  return exceeding;
}

TEST(BoundFaultsTest, WrongKernelsExceedTheBound) {
  constexpr int kProblems = 340;
  for (const TestControl& kernel : f32_controls()) {
    const int scale = count_exceeding(kernel, "scale", kProblems);
    const int key = count_exceeding(kernel, "lost_key", kProblems);
    // A scale that is off by 2^-10 is within what coarse scores and operands
    // allow, and no exponential of 14 bits sees it often.
    const PrecisionModel declared = declared_precision(kernel);
    const bool coarse = declared.score.rounds() || declared.operand.rounds() ||
                        declared.dot.rounds() || declared.value.rounds() ||
                        declared.exp_error > 0x1p-16;
    EXPECT_GT(scale, coarse ? -1 : kProblems / 4) << kernel.name();
    EXPECT_GT(key, coarse ? kProblems / 4 : kProblems / 2) << kernel.name();
    std::printf("%-18s scale 2^-10 %d, lost key %d of %d\n",
                kernel.name().c_str(), scale, key, kProblems);
  }
}

// Rounding to nearest is all that sums in half are allowed.
TEST(BoundFaultsTest, SumsThatAreCutOffExceedTheBound) {
  constexpr int kProblems = 340;
  int kept = 0;
  for (const TestControl& kernel : f32_controls()) {
    const PrecisionModel declared = declared_precision(kernel);
    if (!declared.dot.rounds() && !declared.value.rounds()) continue;
    const int cut = count_exceeding(kernel, "truncated_sums", kProblems);
    EXPECT_GT(cut, kProblems / 20) << kernel.name();
    EXPECT_EQ(count_exceeding(kernel, "none", kProblems), 0) << kernel.name();
    std::printf("%-18s sums cut off %d of %d\n", kernel.name().c_str(), cut,
                kProblems);
    ++kept;
  }
  EXPECT_GE(kept, 5);
}

}  // namespace
}  // namespace qkvet::reference::bound_kernels_test
