// SPDX-License-Identifier: Apache-2.0
// Kernels with options: correct ones stay within the bound of their declaration
// and of the generic model, and come near it.
#include <gtest/gtest.h>

#include "reference/test_options.h"
#include "reference/test_ratios.h"

namespace qkvet {
namespace {

TestProblem stored_problem(TestRandom& random, Regime regime,
                           const Shape& shape, Dtype storage) {
  TestProblem p = random_option_problem(random, regime, shape);
  for (auto* tensor : {&p.q, &p.k, &p.v}) {
    for (double& x : *tensor) x = round_to(storage, x);
  }
  return p;
}

class BoundOptionsTest : public testing::TestWithParam<size_t> {};

TEST_P(BoundOptionsTest, StaysWithinTheBoundAndComesNearIt) {
  constexpr int kProblems = 3400;
  constexpr double kNear = 0.25;
  const TestKernel kernel = option_test_kernels()[GetParam()];
  const PrecisionModel declared = declared_precision(kernel);
  const PrecisionModel generic =
      for_storage(generic_precision(), kernel.storage, kernel.storage);
  TestRandom random(500 + GetParam());
  Ratios all;
  Ratios all_generic;
  double several = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    const Shape shape = random_shape(random, largest_extent(i));
    TestProblem p = stored_problem(random, regime, shape, kernel.storage);
    const OracleOutput oracle = plain_forward(p.get());
    const BoundFacts facts(p.get(), oracle);
    const TestOutput got = run_test_kernel(kernel, p.get());
    const Bound bound = compute_bound(facts, declared, true);
    const Ratios own = ratios(oracle, bound, got, p.problem.shape);
    ASSERT_TRUE(own.worst() <= 1)
        << kernel.name << ", problem " << i << ": o " << own.o << " lse "
        << own.lse << " weights " << own.weights << " sum " << own.row_sum;
    // Generic allows tiles of 16 keys and more.
    if (kernel.tile == 0 || kernel.tile >= 16) {
      const Bound loose = compute_bound(facts, generic, true);
      const Ratios other = ratios(oracle, loose, got, p.problem.shape);
      ASSERT_TRUE(other.worst() <= 1)
          << kernel.name << ", problem " << i << ": o " << other.o << " lse "
          << other.lse << " weights " << other.weights << " sum "
          << other.row_sum;
      keep_larger(all_generic, other);
    }
    keep_larger(all, own);
    if (regime != Regime::kCount && regime != Regime::kTiny) {
      several = std::max(several, own.several);
    }
  }
  EXPECT_GT(several, kNear) << kernel.name;
  std::printf(
      "%-20s declared o %.3f (4 keys or more %.3f) lse %.3f weights %.3f sum "
      "%.3f | generic o %.3f lse %.3f\n",
      kernel.name.c_str(), all.o, several, all.lse, all.weights, all.row_sum,
      all_generic.o, all_generic.lse);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, BoundOptionsTest,
                         testing::Range(size_t{0},
                                        option_test_kernels().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return option_test_kernels()[kernel.param].name;
                         });

}  // namespace
}  // namespace qkvet
