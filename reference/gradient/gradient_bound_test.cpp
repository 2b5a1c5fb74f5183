// SPDX-License-Identifier: Apache-2.0
// The bound of a gradient holds for every correct kernel that the tests can
// emulate, comes near their errors, and is exceeded by wrong ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/base/half.h"
#include "reference/agreement/agreement.h"
#include "reference/options/rope.h"
#include "reference/testing/test_backward.h"
#include "reference/testing/test_gradients.h"

namespace qkvet::reference::gradient_bound_test {
namespace {

// The largest error in units of the bound.
struct GradientRatios {
  double q = 0;
  double k = 0;
  double v = 0;
  double bias = 0;
  double sink = 0;
  double worst() const { return std::max({q, k, v, bias, sink}); }
};

GradientRatios ratios(const GradientOutput& truth, const GradientBound& bound,
                      const GradientOutput& got) {
  return {worst_ratio(got.q, truth.q, bound.q),
          worst_ratio(got.k, truth.k, bound.k),
          worst_ratio(got.v, truth.v, bound.v),
          worst_ratio(got.bias, truth.bias, bound.bias),
          worst_ratio(got.sink, truth.sink, bound.sink)};
}

void keep_larger(GradientRatios& all, const GradientRatios& one) {
  all.q = std::max(all.q, one.q);
  all.k = std::max(all.k, one.k);
  all.v = std::max(all.v, one.v);
  all.bias = std::max(all.bias, one.bias);
  all.sink = std::max(all.sink, one.sink);
}

// As an f32 or, for f64 kernels, an f64 of base 2 holds it.
double through_base2(double lse, Dtype storage) {
  const double in_base2 = lse * 0x1.71547652b82fep0;
  const bool f64 = storage == Dtype::kF64;
  return (f64 ? in_base2 : as_f32(in_base2)) * 0x1.62e42fefa39efp-1;
}

// Inputs of the storage; o and lse as a forward pass stores them.
TestGradient stored_gradient(TestRandom& random, int problem,
                             const BackwardKernel& kernel,
                             decltype(random_gradient) draw) {
  const Dtype storage = kernel.storage;
  // Short rows, where the bound bites, and some long ones.
  TestGradient g = draw(random, problem, problem % 8 == 0 ? 24 : 9);
  const auto store = [storage](double x) { return round_to(storage, x); };
  for (auto* tensor : {&g.call.q, &g.call.k, &g.call.v}) {
    for (double& x : *tensor) x = store(x);
  }
  const OracleOutput truth = storage == Dtype::kF64
                                 ? twin_forward(g.call.get())
                                 : plain_forward(g.call.get());
  give_forward(truth, store, g);
  if (storage == Dtype::kF64) g.lse = truth.lse;
  g.problem.lse_in_base2 = kernel.base2;
  for (size_t row = 0; row < g.lse.size() && kernel.base2; ++row) {
    g.lse[row] = through_base2(truth.lse[row], storage);
  }
  return g;
}

// Some of them sparse.
TestGradient stored_gradient(TestRandom& random, int problem,
                             const BackwardKernel& kernel) {
  return stored_gradient(
      random, problem, kernel,
      problem % 9 == 4 ? random_list_gradient : random_gradient);
}

struct Trial {
  GradientProblem problem;
  OracleOutput forward;
  GradientOutput truth;
};

Trial trial(TestGradient& g, Dtype storage) {
  Trial all;
  all.problem = g.get();
  const bool f64 = storage == Dtype::kF64;
  const Problem& call = all.problem.forward;
  all.forward = f64 ? twin_forward(call) : plain_forward(call);
  all.truth = f64 ? twin_backward(all.problem) : plain_backward(all.problem);
  return all;
}

GradientBound bound_of(const Trial& all, const PrecisionModel& model) {
  return gradient_bound_of(all.problem, all.forward, all.truth, model);
}

// QKVET_GRADIENT_PROBLEMS sets a larger number.
int problem_count() {
  constexpr int kProblems = 340;
  const char* more = std::getenv("QKVET_GRADIENT_PROBLEMS");
  return more != nullptr ? std::atoi(more) : kProblems;
}

// The shares of elements that are judged, and of those with a wide bound.
struct Shares {
  int64_t all = 0;
  int64_t judged = 0;
  int64_t vacuous = 0;
  double of_judged() const {
    return static_cast<double>(judged) / static_cast<double>(all);
  }
  double of_vacuous() const {
    return static_cast<double>(vacuous) / static_cast<double>(judged);
  }
};

void count(const std::vector<double>& bound, const std::vector<double>& reach,
           Shares& shares) {
  for (size_t a = 0; a < bound.size(); ++a) {
    shares.all += 1;
    shares.judged += std::isfinite(bound[a]);
    shares.vacuous +=
        std::isfinite(bound[a]) && reach[a] > 0 && bound[a] >= reach[a] / 2;
  }
}

class GradientBoundTest : public testing::TestWithParam<size_t> {};

TEST_P(GradientBoundTest, StaysWithinTheBoundAndComesNearIt) {
  // Random data reaches this much of each bound, and of one of them. A sink has
  // one gradient a head, so that fewer numbers come near its bound.
  constexpr double kNear = 0.03;
  constexpr double kNearOfSink = 0.02;
  const BackwardKernel kernel = backward_kernels()[GetParam()];
  // In f64, the bound holds the oracle's own roundings as well.
  const double nearest = kernel.storage == Dtype::kF64 ? 0.05 : 0.08;
  const PrecisionModel declared = declared_precision(kernel);
  const PrecisionModel generic =
      for_storage(generic_precision(), kernel.storage, kernel.storage);
  TestRandom random(500 + GetParam());
  GradientRatios all;
  GradientRatios all_generic;
  Shares shares;
  for (int i = 0; i < problem_count(); ++i) {
    TestGradient g = stored_gradient(random, i, kernel);
    const Trial one = trial(g, kernel.storage);
    const GradientOutput got = run_backward_kernel(kernel, one.problem);
    const GradientBound bound = bound_of(one, declared);
    const GradientRatios own = ratios(one.truth, bound, got);
    count(bound.q, bound.reach.q, shares);
    count(bound.k, bound.reach.k, shares);
    count(bound.v, bound.reach.v, shares);
    const GradientRatios loose = ratios(one.truth, bound_of(one, generic), got);
    ASSERT_TRUE(own.worst() <= 1)
        << kernel.name << ", problem " << i << ": q " << own.q << " k " << own.k
        << " v " << own.v << " bias " << own.bias << " sink " << own.sink;
    // Undeclared kernels multiply what the storage holds, and have a good exp.
    if (!kernel.coarse()) {
      ASSERT_TRUE(loose.worst() <= 1) << kernel.name << ", problem " << i;
    }
    keep_larger(all, own);
    keep_larger(all_generic, loose);
  }
  if (kernel.coarse()) {
    EXPECT_GT(all_generic.worst(), 1) << kernel.name;
  }
  EXPECT_GT(all.q, kNear) << kernel.name;
  EXPECT_GT(all.k, kNear) << kernel.name;
  EXPECT_GT(all.v, kNear) << kernel.name;
  EXPECT_GT(all.bias, kNear) << kernel.name;
  // The share of a sink is exp(z - lse). Scores that are stored narrower move
  // it only where the kernel sums an lse of its own.
  const bool scores_reach_sink =
      kernel.stored == Dtype::kF32 || kernel.share != TestShare::kGiven;
  EXPECT_GT(all.sink, scores_reach_sink ? kNearOfSink : 0) << kernel.name;
  EXPECT_GT(std::max({all.q, all.k, all.v}), nearest) << kernel.name;
  std::printf(
      "%-24s declared q %.3f k %.3f v %.3f bias %.3f sink %.3f | generic q "
      "%.3f k %.3f v %.3f bias %.3f sink %.3f | judged %.1f %%, vacuous %.1f "
      "%%\n",
      kernel.name.c_str(), all.q, all.k, all.v, all.bias, all.sink,
      all_generic.q, all_generic.k, all_generic.v, all_generic.bias,
      all_generic.sink, 100 * shares.of_judged(), 100 * shares.of_vacuous());
  // The rest is beyond lengths, or overflows.
  EXPECT_GT(shares.of_judged(), 0.75) << kernel.name;
  // Half operands of f32 data leave nothing of tiny values and much less of
  // large scores; so do half scores. A softmax of 8 bits leaves less still.
  const bool loses = kernel.operands || kernel.stores();
  const double most = kernel.softmax == Dtype::kBf16 ? 0.45
                      : loses                        ? 0.3
                                                     : 0.15;
  EXPECT_LT(shares.of_vacuous(), most) << kernel.name;
}

INSTANTIATE_TEST_SUITE_P(AllKernels, GradientBoundTest,
                         testing::Range(size_t{0}, backward_kernels().size()),
                         [](const testing::TestParamInfo<size_t>& kernel) {
                           return backward_kernels()[kernel.param].name;
                         });

// A kernel that turns q and k, computes, and turns dq and dk back. A share of
// each sine is lost on the way back.
GradientOutput run_turned(const BackwardKernel& kernel, TestGradient g,
                          double lost) {
  const Shape& s = g.call.problem.shape;
  const Rotation turn = g.call.get().rotation;
  const TestTurn of_q = {s.H, s.Tq, s.d}, of_k = {s.Hkv, s.Tk, s.d};
  g.call.q = turned_in_f32(turn, turn.q_positions, of_q, g.call.q);
  g.call.k = turned_in_f32(turn, turn.k_positions, of_k, g.call.k);
  g.call.problem.rotation.style = RopeStyle::kNone;
  GradientOutput out = run_backward_kernel(kernel, g.get());
  const auto back = [lost](TestTurn how) {
    how.sign = lost - 1;
    return how;
  };
  out.q = turned_in_f32(turn, turn.q_positions, back(of_q), out.q);
  out.k = turned_in_f32(turn, turn.k_positions, back(of_k), out.k);
  return out;
}

TEST(GradientBoundTest, HoldsWithRotationsAndComesNearTheirErrors) {
  constexpr double kLost = 0x1p-12;
  for (const BackwardKernel& kernel : backward_kernels()) {
    if (kernel.storage == Dtype::kF64) continue;  // turned in f32
    TestRandom random(77);
    GradientRatios all;
    int caught = 0;
    for (int i = 0; i < 60; ++i) {
      TestGradient g =
          stored_gradient(random, i, kernel, random_turned_gradient);
      const Trial one = trial(g, kernel.storage);
      const GradientBound bound = bound_of(one, declared_precision(kernel));
      keep_larger(all, ratios(one.truth, bound, run_turned(kernel, g, 0)));
      const double wrong =
          ratios(one.truth, bound, run_turned(kernel, g, kLost)).worst();
      caught += !(wrong <= 1);
    }
    EXPECT_LE(all.worst(), 1) << kernel.name;
    EXPECT_GT(std::max(all.q, all.k), 0.03) << kernel.name;
    const bool plain = kernel.storage == Dtype::kF32 &&
                       kernel.rounded == Dtype::kF32 && !kernel.coarse();
    EXPECT_GT(caught, plain ? 10 : -1) << kernel.name;
    std::printf("%-24s q %.3f k %.3f, caught %d\n", kernel.name.c_str(), all.q,
                all.k, caught);
  }
}

constexpr std::array kFaults = {
    TestBackwardFault::kDeltaMissing, TestBackwardFault::kScale,
    TestBackwardFault::kSlightScale, TestBackwardFault::kLostKey,
    TestBackwardFault::kLostMember};

// In how many problems each fault exceeds the bound of the declaration.
std::array<int, kFaults.size()> count_exceeding(const BackwardKernel& kernel,
                                                int problems) {
  std::array<int, kFaults.size()> exceeding{};
  TestRandom random(10);
  for (int i = 0; i < problems; ++i) {
    TestGradient g = stored_gradient(random, i, kernel);
    const Trial one = trial(g, kernel.storage);
    const GradientBound bound = bound_of(one, declared_precision(kernel));
    for (size_t f = 0; f < kFaults.size(); ++f) {
      BackwardKernel faulty = kernel;
      faulty.fault = kFaults[f];
      const GradientOutput got = run_backward_kernel(faulty, one.problem);
      exceeding[f] += !(ratios(one.truth, bound, got).worst() <= 1);
    }
  }
  return exceeding;
}

TEST(GradientFaultsTest, WrongKernelsExceedTheBound) {
  constexpr int kProblems = 85;
  for (const BackwardKernel& kernel : backward_kernels()) {
    const auto [delta, scale, slight, key, member] =
        count_exceeding(kernel, kProblems);
    const bool half = kernel.coarse() || kernel.storage == Dtype::kF16 ||
                      kernel.storage == Dtype::kBf16;
    EXPECT_GT(delta, kProblems / 2) << kernel.name;
    // 2^-8 is what an operand of bf16 may be off by, and what is stored in it
    // or a few times in f16.
    const bool hidden = (kernel.operands && kernel.rounded == Dtype::kBf16) ||
                        kernel.stored == Dtype::kBf16 ||
                        kernel.softmax != Dtype::kF32;
    EXPECT_GT(scale, hidden ? -1 : half ? 0 : kProblems / 4) << kernel.name;
    EXPECT_GT(slight, half ? -1 : kProblems / 4) << kernel.name;
    EXPECT_GT(key, kProblems / 2) << kernel.name;
    EXPECT_GT(member, kProblems / 4) << kernel.name;
    std::printf(
        "%-24s delta %d, scale 2^-8 %d 2^-14 %d, lost key %d, head %d of %d\n",
        kernel.name.c_str(), delta, scale, slight, key, member, kProblems);
  }
}

}  // namespace
}  // namespace qkvet::reference::gradient_bound_test
