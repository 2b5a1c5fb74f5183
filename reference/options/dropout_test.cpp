// SPDX-License-Identifier: Apache-2.0
// Dropout: the two references agree, correct kernels stay within the bound, and
// the mistakes that are known leave it.
#include "reference/options/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_backward.h"
#include "reference/testing/test_dropout.h"

namespace qkvet::reference::dropout_test {
namespace {

// The inputs of a kernel: o as stored, lse as stored.
struct Given {
  std::vector<double> o, lse;
  DropoutGiven given;

  Given(const OracleOutput& forward, const double* d_o)
      : o(forward.o), lse(forward.lse) {
    for (double& x : o) x = as_f32(x);
    for (double& x : lse) x = as_f32(x);
    given = {d_o, o.data(), lse.data(), false};
  }
};

TEST(Dropout, TheReferencesAgree) {
  TestRandom random(41);
  double worst = 0, worst_gradient = 0;
  int other_masks = 0;
  constexpr int kProblems = 400;
  for (int i = 0; i < kProblems; ++i) {
    TestDropout drop = random_dropout(random, i);
    const DropoutProblem& problem = drop.get();
    const OracleOutput plain = plain_dropout(problem);
    const OracleOutput twin = twin_dropout(problem);
    const PrecisionModel model = double_precision();
    const DropoutBound bound = dropout_bound(problem, twin, model);
    const double ratio = worst_ratio(plain.o, twin.o, bound.o);
    ASSERT_LE(ratio, 1) << i;
    worst = std::max(worst, ratio);
    const double* d_o = drop.g.d_o.data();
    const DropoutGiven given = {d_o, plain.o.data(), plain.lse.data(), false};
    const GradientOutput truth = twin_dropout_backward(problem, d_o);
    const double of_gradient =
        worst_ratio(plain_dropout_backward(problem, d_o), truth,
                    dropout_backward_bound(problem, given, twin, truth, model));
    ASSERT_LE(of_gradient, 1) << i;
    worst_gradient = std::max(worst_gradient, of_gradient);
    // The control: with everything kept it is another output.
    std::fill(drop.kept.begin(), drop.kept.end(), 1);
    other_masks += worst_ratio(plain_dropout(problem).o, twin.o, bound.o) > 1;
  }
  std::printf("forward %.3f, gradient %.3f, %d of %d masks matter\n", worst,
              worst_gradient, other_masks, kProblems);
  EXPECT_GT(worst, 0.01);
  EXPECT_GT(other_masks, kProblems / 2);
}

TEST(Dropout, NothingDroppedIsPlainAttention) {
  TestRandom random(42);
  TestDropout drop = random_dropout(random, 0);
  std::fill(drop.kept.begin(), drop.kept.end(), 1);
  drop.problem.p = 0;
  const DropoutProblem& problem = drop.get();
  EXPECT_EQ(plain_dropout(problem).o, plain_forward(problem.forward).o);
  EXPECT_EQ(twin_dropout(problem).o, twin_forward(problem.forward).o);
  EXPECT_EQ(plain_dropout_backward(problem, drop.g.d_o.data()).q,
            plain_backward(drop.g.get()).q);
}

// The formula against the change of the forward pass.
TEST(Dropout, TheGradientIsTheChangeOfTheOutput) {
  TestRandom random(43);
  TestDropout drop = random_dropout(random, 0);
  const DropoutProblem& problem = drop.get();
  const GradientOutput truth =
      plain_dropout_backward(problem, drop.g.d_o.data());
  const auto loss = [&] {
    const OracleOutput out = plain_dropout(drop.get());
    double sum = 0;
    for (size_t n = 0; n < out.o.size(); ++n)
      if (out.visible[n / static_cast<size_t>(drop.g.call.problem.shape.dv)] >
          0)
        sum += out.o[n] * drop.g.d_o[n];
    return sum;
  };
  constexpr double kStep = 1e-5;
  const struct {
    std::vector<double>& input;
    const std::vector<double>& gradient;
  } rows[] = {{drop.g.call.q, truth.q},
              {drop.g.call.k, truth.k},
              {drop.g.call.v, truth.v}};
  for (const auto& [input, gradient] : rows)
    for (size_t n = 0; n < input.size(); ++n) {
      const double at = input[n];
      input[n] = at + kStep;
      const double up = loss();
      input[n] = at - kStep;
      const double down = loss();
      input[n] = at;
      EXPECT_NEAR((up - down) / (2 * kStep), gradient[n], 1e-7);
    }
}

TEST(Dropout, CorrectKernelsStayWithinTheBoundAndWrongOnesDoNot) {
  TestRandom random(44);
  const PrecisionModel model =
      for_storage(generic_precision(), Dtype::kF32, Dtype::kF32);
  double worst = 0;
  int64_t judged = 0, all = 0;
  int beyond[3] = {};
  constexpr Wrong kWrong[] = {Wrong::kScaledByP, Wrong::kNotScaled,
                              Wrong::kRenormalised};
  constexpr int kProblems = 1700;
  for (int i = 0; i < kProblems; ++i) {
    TestDropout drop = random_dropout(random, i);
    const DropoutProblem& problem = drop.get();
    const OracleOutput truth = plain_dropout(problem);
    const DropoutBound bound = dropout_bound(problem, truth, model);
    for (size_t n = 0; n < bound.o.size(); ++n) {
      all += 1;
      judged += std::isfinite(bound.o[n]);
    }
    for (const FactorAt at : kFactorAt) {
      const double ratio =
          worst_ratio(run_f32(problem, truth, at), truth.o, bound.o);
      ASSERT_LE(ratio, 1) << i << " " << static_cast<int>(at);
      worst = std::max(worst, ratio);
    }
    for (size_t w = 0; w < std::size(kWrong); ++w)
      beyond[w] +=
          worst_ratio(run_f32(problem, truth, FactorAt::kWeights, kWrong[w]),
                      truth.o, bound.o) > 1;
  }
  std::printf("worst %.3f; of %d: by p %d, not scaled %d, renormalised %d\n",
              worst, kProblems, beyond[0], beyond[1], beyond[2]);
  EXPECT_GT(worst, 0.05);
  EXPECT_GT(judged, all * 3 / 4);
  // A quarter has p = 0.5, where 1 / p is right.
  for (const int count : beyond) EXPECT_GT(count, kProblems / 3);
}

TEST(Dropout, CorrectGradientsStayWithinTheBoundAndWrongOnesDoNot) {
  TestRandom random(45);
  const PrecisionModel model =
      for_storage(generic_precision(), Dtype::kF32, Dtype::kF32);
  double worst = 0;
  int beyond[4] = {};
  using Fault = TestBackwardFault;
  constexpr Fault kWrong[] = {Fault::kScaledByP, Fault::kOtherMask,
                              Fault::kDroppedWeights, Fault::kPullNotMasked};
  constexpr int kProblems = 1020;
  for (int i = 0; i < kProblems; ++i) {
    TestDropout drop = random_dropout(random, i);
    const DropoutProblem& problem = drop.get();
    const OracleOutput forward = plain_dropout(problem);
    const double* d_o = drop.g.d_o.data();
    const Given given(forward, d_o);
    const GradientOutput truth = plain_dropout_backward(problem, d_o);
    const GradientBound bound =
        dropout_backward_bound(problem, given.given, forward, truth, model);
    const auto run = [&](TestDelta delta, TestBackwardFault fault) {
      BackwardKernel kernel = {.share = TestShare::kSoftmax, .delta = delta};
      kernel.dropout = &problem;
      kernel.fault = fault;
      const GradientProblem call = {problem.forward, d_o, given.o.data(),
                                    given.lse.data()};
      return worst_ratio(run_backward_kernel(kernel, call), truth, bound);
    };
    for (const TestDelta delta : {TestDelta::kGiven, TestDelta::kPairs}) {
      const double ratio = run(delta, TestBackwardFault::kNone);
      ASSERT_LE(ratio, 1) << i << " " << static_cast<int>(delta);
      worst = std::max(worst, ratio);
    }
    for (size_t w = 0; w < std::size(kWrong); ++w)
      beyond[w] += run(TestDelta::kGiven, kWrong[w]) > 1;
  }
  std::printf(
      "worst %.3f; of %d: by p %d, other mask %d, dropped weights %d, pull "
      "%d\n",
      worst, kProblems, beyond[0], beyond[1], beyond[2], beyond[3]);
  EXPECT_GT(worst, 0.02);
  for (const int count : beyond) EXPECT_GT(count, kProblems / 4);
}

TEST(Dropout, WhatHasNoDerivationSaysSo) {
  Problem problem;
  EXPECT_EQ(dropout_not_derived(problem), "");
  const double slope = 1;
  problem.slopes = &slope;
  EXPECT_NE(dropout_not_derived(problem), "");
  problem = {};
  problem.rotation.style = RopeStyle::kHalf;
  EXPECT_NE(dropout_not_derived(problem), "");
  problem = {};
  const int64_t starts[] = {0, 1};
  problem.cu_q = starts;
  EXPECT_NE(dropout_not_derived(problem), "");
}

}  // namespace
}  // namespace qkvet::reference::dropout_test
