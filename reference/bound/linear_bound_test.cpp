// SPDX-License-Identifier: Apache-2.0
// The bound of a projection holds for every correct kernel that the tests can
// emulate, comes close to their errors, is 0 where everything is exact, and is
// exceeded by kernels that are wrong.
#include <gtest/gtest.h>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_layer_kernels.h"
#include "reference/testing/test_layers.h"
#include "reference/testing/test_ratios.h"

namespace qkvet::reference::linear_bound_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PrecisionModel model_for(const TestLinearKernel& kernel) {
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_CPU_F32;
  PrecisionModel model = for_storage(resolve_precision(declared).model,
                                     kernel.storage, kernel.storage);
  model.ftz = kernel.ftz;
  return model;
}

struct Counts {
  double worst = 0;  // distance / bound, where there is a bound
  double dense = 0;  // the same for sums of at least four alike terms
  int outside = 0;   // problems that are not accepted
};

Counts judge(const TestLinearKernel& kernel, const PrecisionModel& model,
             int problems, uint64_t seed) {
  TestRandom random(seed);
  Counts counts;
  for (int i = 0; i < problems; ++i) {
    const auto regime = static_cast<LinearRegime>(i % kLinearRegimeCount);
    const int64_t largest = i % 8 == 0 ? 70 : 9;
    TestLinearProblem p =
        random_linear(random, regime, largest, kernel.storage);
    const std::vector<double> oracle = plain_linear(p.get());
    const LinearBound bound = linear_bound(p.get(), oracle, model);
    const std::vector<double> got = run_test_linear(kernel, p.get());
    const double ratio = worst_ratio(got, oracle, bound.bound);
    counts.worst = std::max(counts.worst, ratio);
    const bool alike = regime == LinearRegime::kNormal ||
                       regime == LinearRegime::kPositive ||
                       regime == LinearRegime::kCancel;
    if (p.problem.in >= 4 && alike) {
      counts.dense = std::max(counts.dense, ratio);
    }
    counts.outside += !accepted(oracle, bound.bound, got, kernel.storage);
  }
  return counts;
}

class LinearBoundTest : public testing::TestWithParam<size_t> {};

TEST_P(LinearBoundTest, HoldsForCorrectKernelsAndComesNearThem) {
  constexpr int kProblems = 6000;
  constexpr double kNear = 0.25;
  TestLinearKernel kernel = test_linear_kernels()[GetParam()];
  for (const Dtype storage : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    kernel.storage = storage;
    const uint64_t seed = 500 + GetParam();
    const Counts own = judge(kernel, model_for(kernel), kProblems, seed);
    EXPECT_LE(own.worst, 1) << kernel.name;
    EXPECT_EQ(own.outside, 0) << kernel.name;
    EXPECT_GT(own.dense, kNear) << kernel.name;
    const Counts generic =
        judge(kernel, for_storage(generic_precision(), storage, storage),
              kProblems / 10, seed);
    EXPECT_LE(generic.worst, 1) << kernel.name;
    std::printf("%-17s %-4s %.3f (four terms or more %.3f), generic %.3f\n",
                kernel.name.c_str(), dtype_name(storage).data(), own.worst,
                own.dense, generic.worst);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LinearBoundTest,
                         testing::Range(size_t{0},
                                        test_linear_kernels().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return test_linear_kernels()[kernel.param].name;
                         });

TEST(LinearBoundFaultsTest, WrongKernelsExceedTheBound) {
  constexpr int kProblems = 1000;
  for (const Dtype storage : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    for (const auto fault :
         {TestLinearFault::kWrongIndex, TestLinearFault::kHalfAccumulator}) {
      TestLinearKernel kernel;
      kernel.storage = storage;
      kernel.fault = fault;
      const int seen = judge(kernel, model_for(kernel), kProblems, 9).outside;
      EXPECT_GT(seen, kProblems / 4);
      std::printf("%s, fault %d: outside in %d of %d\n",
                  dtype_name(storage).data(), static_cast<int>(fault), seen,
                  kProblems);
    }
  }
}

struct Small {
  std::vector<double> x, w, bias;
  LinearBound bound(const PrecisionModel& model,
                    const double* x_error = nullptr) {
    const auto in = static_cast<int64_t>(x.size());
    const LinearProblem problem{
        1,        in,       static_cast<int64_t>(w.size()) / in,
        x.data(), w.data(), bias.empty() ? nullptr : bias.data()};
    return linear_bound(problem, plain_linear(problem), model, x_error);
  }
};

constexpr double kU = 0x1p-24;
constexpr double kThird = 0x1.555556p-2;  // 24 bits
constexpr double kSmall = kThird * 0x1p-60;

TEST(LinearBoundClaimsTest, ExactDataHaveNoBoundAtAll) {
  // The generic model flushes to zero; none of this is affected.
  const PrecisionModel model = generic_precision();
  Small one_hot{{0, 1, 0}, {kThird, 1e30f, kThird, kSmall, 7, kThird}, {}};
  EXPECT_EQ(one_hot.bound(model).bound, (std::vector<double>{0, 0}));
  EXPECT_EQ(one_hot.bound(model).reach, (std::vector<double>{kThird, kSmall}));
  Small integers{{3, -5, 7}, {2, 0.25, -1, 4, 100, -0.5}, {1000, 0.75}};
  EXPECT_EQ(integers.bound(model).bound, (std::vector<double>{0, 0}));
  Small zeros{{0, 0}, {kThird, kThird}, {kThird}};
  EXPECT_EQ(zeros.bound(model).bound, (std::vector<double>{0}));
}

TEST(LinearBoundClaimsTest, ExactnessEndsAtTwoToThe24) {
  const PrecisionModel model = model_for({});
  Small sum{{1, 1}, {0x1p23, 0x1p23}, {}};
  EXPECT_EQ(sum.bound(model).bound[0], 0);
  sum.bias = {1};
  EXPECT_GE(sum.bound(model).bound[0], 1);
}

TEST(LinearBoundClaimsTest, SubnormalsAreExactUnlessFlushed) {
  PrecisionModel model = model_for({});
  Small tiny{{1}, {0x1p-140}, {}};
  EXPECT_EQ(tiny.bound(model).bound[0], 0);
  model.ftz = true;
  EXPECT_GE(tiny.bound(model).bound[0], 0x1p-140);
}

TEST(LinearBoundClaimsTest, OneRoundingIsOneRounding) {
  const PrecisionModel model = model_for({});
  const double nearly = 1 + 1e-5;
  // One product, with 24 bits in each factor.
  Small product{{kThird}, {kThird}, {}};
  const double size = kThird * kThird;
  EXPECT_GE(product.bound(model).bound[0], kU * size);
  EXPECT_LE(product.bound(model).bound[0], kU * size * nearly);
  // W = 1 rounds no product, only the addition of the bias.
  Small addition{{kThird}, {1}, {1e-3}};
  EXPECT_GE(addition.bound(model).bound[0], kU * kThird);
  EXPECT_LE(addition.bound(model).bound[0], kU * (kThird + 1e-3) * nearly);
  // A bias below half an ulp cannot cost more than itself.
  Small lost{{kThird}, {1}, {1e-12}};
  EXPECT_LE(lost.bound(model).bound[0], 1e-12 * (1 + 1e-3));
}

TEST(LinearBoundClaimsTest, UncertainInputsMoveTheOutput) {
  const PrecisionModel model = model_for({});
  Small integers{{3, -5}, {2, 4}, {}};
  const double off[] = {0x1p-4, 0};
  const double bound = integers.bound(model, off).bound[0];
  EXPECT_GE(bound, 2 * off[0]);
  EXPECT_LE(bound, 2 * off[0] + 1e-5);
  EXPECT_EQ(integers.bound(model, off).reach[0], 26);
  const double exact[] = {0, 0};
  EXPECT_EQ(integers.bound(model, exact).bound[0], 0);
}

TEST(LinearBoundClaimsTest, WhatMayOverflowIsNotJudged) {
  PrecisionModel model = model_for({});
  Small huge{{1e20, 1}, {1e20, 1}, {}};
  EXPECT_EQ(huge.bound(model).bound[0], kInfinity);
  Small half{{1}, {65520}, {}};
  EXPECT_EQ(half.bound(model).bound[0], 0);
  model = for_storage(model, Dtype::kF16, Dtype::kF16);
  EXPECT_EQ(half.bound(model).bound[0], kInfinity);
}

}  // namespace
}  // namespace qkvet::reference::linear_bound_test
