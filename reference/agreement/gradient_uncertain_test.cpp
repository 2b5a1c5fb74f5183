// SPDX-License-Identifier: Apache-2.0
// Gradients of kernels that read inputs of their own: within the bound if it
// gets the distance of these inputs from the problem's, beyond it if not.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_backward.h"
#include "reference/testing/test_gradients.h"

namespace qkvet::reference::gradient_uncertain_test {
namespace {

// Every element moved by up to `size` of itself, or of 1 where it is small, or
// not at all; and how far that is.
struct Moved {
  std::vector<double> x;
  std::vector<double> off;
};

Moved move(TestRandom& random, const std::vector<double>& x, double size) {
  Moved moved{x, std::vector<double>(x.size())};
  const bool none = random.below(4) == 0;
  for (size_t a = 0; a < x.size() && !none; ++a) {
    if (!std::isfinite(x[a]) || random.below(5) == 0) continue;
    const double step = size * (2 * random.uniform() - 1);
    moved.x[a] = as_f32(x[a] + step * std::max(1.0, std::fabs(x[a])));
    // Now and then it could have been twice as far.
    moved.off[a] =
        std::fabs(moved.x[a] - x[a]) * (random.below(3) == 0 ? 2 : 1);
  }
  return moved;
}

TEST(GradientUncertainTest, HoldsIfItIsToldAndOnlyThen) {
  constexpr int kProblems = 1020;
  const auto kernels = backward_kernels();
  constexpr size_t kOfF32 = 12;
  TestRandom random(41);
  double largest = 0;
  int beyond = 0;
  for (int i = 0; i < kProblems; ++i) {
    const BackwardKernel& kernel = kernels[random.below(kOfF32)];
    TestGradient g = random_gradient(random, i, 9);
    const double size = std::pow(10.0, -2 - 4 * random.uniform());
    TestGradient own = g;
    const Moved q = move(random, g.call.q, size);
    const Moved k = move(random, g.call.k, size);
    const Moved v = move(random, g.call.v, size);
    const Moved d_o = move(random, g.d_o, size);
    own.call.q = q.x;
    own.call.k = k.x;
    own.call.v = v.x;
    give_forward(plain_forward(own.call.get()), as_f32, own);
    own.d_o = d_o.x;
    std::vector<double> o_off(g.o.size());
    for (size_t a = 0; a < o_off.size(); ++a) {
      o_off[a] = std::fabs(own.o[a] - g.o[a]);
    }
    g.lse = own.lse;
    const GradientProblem& problem = g.get();
    const OracleOutput forward = plain_forward(problem.forward);
    const GradientOutput truth = plain_backward(problem);
    GradientErrors errors;
    errors.inputs = {q.off.data(), k.off.data(), v.off.data()};
    errors.d_o = d_o.off.data();
    errors.o = o_off.data();
    const BoundFacts facts(problem.forward, forward, errors.inputs);
    const PrecisionModel model = declared_precision(kernel);
    const GradientOutput got = run_backward_kernel(kernel, own.get());
    const double told = worst_ratio(
        got, truth, backward_bound(problem, facts, truth, model, errors));
    ASSERT_TRUE(told <= 1) << kernel.name << ", problem " << i << ": " << told;
    largest = std::max(largest, told);
    const GradientBound bound = backward_bound(problem, forward, truth, model);
    beyond += !(worst_ratio(got, truth, bound) <= 1);
  }
  EXPECT_GT(largest, 0.3);
  EXPECT_GT(beyond, kProblems / 2);
  std::printf("worst %.3f; untold, %d of %d exceed the bound\n", largest,
              beyond, kProblems);
}

}  // namespace
}  // namespace qkvet::reference::gradient_uncertain_test
