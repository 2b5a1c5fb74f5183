// SPDX-License-Identifier: Apache-2.0
// The gradient of a layer: against the derivative of the layer itself, within
// the bound for double; and its bound against correct kernels and wrong ones.
#include "reference/layer/layer_gradient.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_gradients.h"
#include "reference/testing/test_layer_gradients.h"

namespace qkvet::reference::layer_gradient_test {
namespace {

// One position of width 1: every stage is a product of numbers.
TEST(LayerGradientTest, OfOnePositionWorkedOutByHand) {
  Shape s;
  s.D = 1;
  const std::vector<double> x = {3};
  const std::vector<double> w_q = {5};
  const std::vector<double> w_k = {7};
  const std::vector<double> w_v = {2};
  const std::vector<double> w_o = {11};
  const std::vector<double> d_y = {4};
  LayerGradientProblem problem;
  problem.forward.shape = s;
  problem.forward.x = x.data();
  problem.forward.w_q = w_q.data();
  problem.forward.w_k = w_k.data();
  problem.forward.w_v = w_v.data();
  problem.forward.w_o = w_o.data();
  problem.d_y = d_y.data();
  const LayerGradientOutput got = plain_layer_backward(problem);
  EXPECT_EQ(got.x, (std::vector<double>{88}));    // 4 11 2
  EXPECT_EQ(got.w_o, (std::vector<double>{24}));  // 3 2 4
  EXPECT_EQ(got.w_v, (std::vector<double>{132}));
  EXPECT_EQ(got.w_q, (std::vector<double>{0}));
  EXPECT_EQ(got.w_k, (std::vector<double>{0}));
  EXPECT_EQ(got.b_o, (std::vector<double>{4}));
  EXPECT_EQ(got.b_v, (std::vector<double>{44}));
  EXPECT_EQ(got.b_q, (std::vector<double>{0}));
}

using Member = std::vector<double> LayerGradientOutput::*;
constexpr std::array<Member, 9> kMembers = {
    &LayerGradientOutput::x,   &LayerGradientOutput::w_q,
    &LayerGradientOutput::w_k, &LayerGradientOutput::w_v,
    &LayerGradientOutput::w_o, &LayerGradientOutput::b_q,
    &LayerGradientOutput::b_k, &LayerGradientOutput::b_v,
    &LayerGradientOutput::b_o};

LayerDirection direction_of(const LayerGradientOutput& way, bool biases) {
  const auto bias = [biases](const std::vector<double>& b) {
    return biases ? b.data() : nullptr;
  };
  return {way.x.data(),   way.w_q.data(), way.w_k.data(),
          way.w_v.data(), way.w_o.data(), bias(way.b_q),
          bias(way.b_k),  bias(way.b_v),  bias(way.b_o)};
}

LayerGradientOutput random_way(TestRandom& random,
                               const LayerGradientOutput& like) {
  LayerGradientOutput way;
  for (const Member member : kMembers) {
    for (size_t a = 0; a < (like.*member).size(); ++a) {
      (way.*member).push_back(random.normal());
    }
  }
  return way;
}

// `spoil` is the member that the gradient gets wrong, or none.
Identity identity(TestRandom& random, TestLayerGradient& g, int spoil) {
  const LayerGradientProblem& problem = g.get();
  LayerGradientOutput got = plain_layer_backward(problem);
  const LayerGradientBound bound =
      layer_backward_bound(problem, plain_layer(problem.forward), got,
                           double_precision(), Dtype::kF64);
  if (spoil >= 0) {
    // Two of its elements take each other's place, or its sign is lost.
    std::vector<double>& all = got.*kMembers[spoil];
    if (all.size() > 1) {
      std::swap(all.front(), all.back());
    } else {
      all[0] = -all[0];
    }
  }
  const LayerGradientOutput way = random_way(random, got);
  Identity both;
  const bool biases = g.layer.has_biases;
  for (size_t member = 0; member < (biases ? kMembers.size() : 5); ++member) {
    const Member at = kMembers[member];
    both.add(got.*at, way.*at, bound.bound.*at);
  }
  both.compare(
      layer_directional_derivative(problem, direction_of(way, biases)));
  return both;
}

TEST(LayerGradientTest, TheAdjointIdentityHolds) {
  constexpr int kProblems = 300;
  TestRandom random(51);
  double worst = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestLayerGradient g = random_layer_gradient(random, i, 5, Dtype::kF32);
    const Identity both = identity(random, g, -1);
    ASSERT_LE(both.gap, both.allowed) << "problem " << i;
    if (both.allowed > 0) worst = std::max(worst, both.gap / both.allowed);
  }
  EXPECT_GT(worst, 1e-4);
  std::printf("worst gap / allowed %.4f\n", worst);
}

// Sum of d_y y of the twin, its inputs moved by `h` in the direction.
double pulled(const TestLayerGradient& g, const LayerGradientOutput& way,
              double h) {
  TestLayerProblem moved = g.layer;
  const std::array<std::vector<double>*, 9> inputs = {
      &moved.x,   &moved.w_q, &moved.w_k, &moved.w_v, &moved.w_o,
      &moved.b_q, &moved.b_k, &moved.b_v, &moved.b_o};
  for (size_t member = 0; member < kMembers.size(); ++member) {
    const std::vector<double>& step = way.*kMembers[member];
    for (size_t a = 0; a < step.size(); ++a) {
      (*inputs[member])[a] += h * step[a];
    }
  }
  const LayerOutput out = twin_layer(moved.get());
  double sum = 0;
  for (size_t a = 0; a < out.y.size(); ++a) sum += g.d_y[a] * out.y[a];
  return sum;
}

// Central differences of the twin, of order h^2: they share no line with the
// dual numbers that the gradient is compared with.
TEST(LayerGradientTest, DirectionalDerivativesAreLimitsOfDifferences) {
  constexpr double kStep = 0x1p-16;
  constexpr double kNear = 1e-6;
  constexpr int kProblems = 200;
  TestRandom random(53);
  int without_x_is_seen = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestLayerGradient g;
    const Shape s = random_layer_shape(random, 5);
    g.layer = random_layer(random, LayerRegime::kNormal, s, Dtype::kF64);
    g.d_y = random_vector(random, LayerRegime::kNormal, s.B * s.Tq * s.D);
    const LayerGradientProblem& problem = g.get();
    const LayerGradientOutput way =
        random_way(random, plain_layer_backward(problem));
    LayerDirection direction = direction_of(way, g.layer.has_biases);
    const double difference =
        (pulled(g, way, kStep) - pulled(g, way, -kStep)) / (2 * kStep);
    const double near = kNear * 100 * static_cast<double>(g.d_y.size());
    EXPECT_NEAR(difference, layer_directional_derivative(problem, direction),
                near)
        << "problem " << i;
    direction.x = nullptr;
    const double without_x = layer_directional_derivative(problem, direction);
    without_x_is_seen += std::fabs(difference - without_x) > near;
  }
  EXPECT_GT(without_x_is_seen, kProblems * 9 / 10);
}

TEST(LayerGradientTest, TheAdjointIdentityCatchesEachWrongMember) {
  constexpr int kProblems = 60;
  for (int member = 0; member < static_cast<int>(kMembers.size()); ++member) {
    TestRandom random(52);
    int caught = 0;
    for (int i = 0; i < kProblems; ++i) {
      TestLayerGradient g = random_layer_gradient(random, i, 5, Dtype::kF32);
      const Identity both = identity(random, g, member);
      caught += both.gap > both.allowed;
    }
    // b_k moves all scores of a row alike: without a rotation its gradient is
    // 0, and two zeros may change places.
    const bool zero = kMembers[member] == &LayerGradientOutput::b_k;
    EXPECT_GT(caught, zero ? 0 : kProblems / 4) << "member " << member;
  }
}

// QKVET_GRADIENT_PROBLEMS sets a larger number.
int problem_count() {
  constexpr int kProblems = 120;
  const char* more = std::getenv("QKVET_GRADIENT_PROBLEMS");
  return more != nullptr ? std::atoi(more) : kProblems;
}

struct Judged {
  double worst = 0;
  std::array<double, kMembers.size()> each{};
  int64_t elements = 0;
  int64_t vacuous = 0;
};

void judge(const LayerGradientKernel& kernel, TestLayerGradient& g,
           const PrecisionModel& model, Judged& all) {
  const LayerGradientProblem& problem = g.get();
  const LayerGradientOutput truth = plain_layer_backward(problem);
  const LayerGradientBound bound = layer_backward_bound(
      problem, plain_layer(problem.forward), truth, model, kernel.stage);
  const LayerGradientOutput got = run_layer_gradient(kernel, problem);
  all.worst = 0;
  for (size_t member = 0; member < kMembers.size(); ++member) {
    const Member at = kMembers[member];
    const double ratio = worst_ratio(got.*at, truth.*at, bound.bound.*at);
    all.worst = std::max(all.worst, ratio);
    all.each[member] = std::max(all.each[member], ratio);
    for (size_t a = 0; a < (truth.*at).size(); ++a) {
      const double reach = (bound.reach.*at)[a];
      if (reach == 0) continue;
      ++all.elements;
      all.vacuous += (bound.bound.*at)[a] >= reach / 2;
    }
  }
}

class LayerGradientBoundTest : public testing::TestWithParam<size_t> {};

TEST_P(LayerGradientBoundTest, HoldsForCorrectKernels) {
  const LayerGradientKernel kernel = layer_gradient_kernels()[GetParam()];
  const Dtype storage = kernel.attention.storage;
  const PrecisionModel declared = declared_precision(kernel.attention);
  const PrecisionModel generic =
      for_storage(generic_precision(), storage, storage);
  TestRandom random(600 + GetParam());
  Judged own;
  Judged loose;
  for (int i = 0; i < problem_count(); ++i) {
    TestLayerGradient g =
        random_layer_gradient(random, i, i % 4 == 0 ? 12 : 5, storage);
    judge(kernel, g, declared, own);
    ASSERT_TRUE(own.worst <= 1) << "problem " << i << ": " << own.worst;
    judge(kernel, g, generic, loose);
    if (!kernel.attention.coarse()) {
      ASSERT_TRUE(loose.worst <= 1) << "problem " << i << ": " << loose.worst;
    }
  }
  std::printf("%s:", kernel.attention.name.c_str());
  for (const double ratio : own.each) std::printf(" %.3f", ratio);
  std::printf(", vacuous %.1f %%, generic %.1f %%\n",
              100.0 * static_cast<double>(own.vacuous) /
                  static_cast<double>(own.elements),
              100.0 * static_cast<double>(loose.vacuous) /
                  static_cast<double>(loose.elements));
  // Matrices have cancelling sums in short rows; this much is reached. With a
  // softmax in half a third to a half of all elements have no bound.
  const bool half_softmax = kernel.attention.softmax != Dtype::kF32;
  EXPECT_GT(*std::max_element(own.each.begin(), own.each.end()),
            half_softmax ? 0.08 : 0.1);
  // Some gradients are nearly exact in narrow arithmetic: those of W_O and b_O
  // are sums of stored values, that of b_V sums whole rows of P, in which
  // errors cancel.
  const bool coarse = kernel.attention.coarse();
  const bool half = storage == Dtype::kF16 || storage == Dtype::kBf16;
  for (size_t member = 0; member < own.each.size(); ++member) {
    const Member at = kMembers[member];
    const bool of_output =
        at == &LayerGradientOutput::w_o || at == &LayerGradientOutput::b_o;
    const bool exact = ((coarse || half) && of_output) ||
                       (coarse && at == &LayerGradientOutput::b_v);
    EXPECT_GT(own.each[member], exact ? -1 : 0.01) << "member " << member;
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllKernels, LayerGradientBoundTest,
    testing::Range(size_t{0}, layer_gradient_kernels().size()),
    [](const testing::TestParamInfo<size_t>& kernel) {
      return layer_gradient_kernels()[kernel.param].attention.name +
             (layer_gradient_kernels()[kernel.param].stage == Dtype::kF32
                  ? "_f32_stages"
                  : "_stored_stages");
    });

TEST(LayerGradientBoundTest, WrongKernelsExceedIt) {
  constexpr int kProblems = 60;
  for (const auto fault :
       {TestBackwardFault::kDeltaMissing, TestBackwardFault::kScale,
        TestBackwardFault::kLostKey, TestBackwardFault::kLostMember}) {
    LayerGradientKernel kernel = layer_gradient_kernels().front();
    kernel.attention.fault = fault;
    TestRandom random(53);
    int exceeding = 0;
    for (int i = 0; i < kProblems; ++i) {
      TestLayerGradient g = random_layer_gradient(random, i, 6, Dtype::kF32);
      Judged all;
      judge(kernel, g, declared_precision(kernel.attention), all);
      exceeding += !(all.worst <= 1);
    }
    EXPECT_GT(exceeding, kProblems / 5);
    std::printf("fault %d: %d of %d\n", static_cast<int>(fault), exceeding,
                kProblems);
  }
}

}  // namespace
}  // namespace qkvet::reference::layer_gradient_test
