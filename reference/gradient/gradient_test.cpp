// SPDX-License-Identifier: Apache-2.0
// The definition of the gradient against cases worked out by hand, against its
// twin, and both against the derivative of the forward pass, which uses no
// formula for a gradient.
#include "reference/gradient/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "reference/agreement/agreement.h"
#include "reference/arithmetic/double_double.h"
#include "reference/options/rope.h"
#include "reference/seeded/seeded_gradient.h"
#include "reference/testing/test_gradients.h"

namespace qkvet::reference::gradient_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Backward = GradientOutput (*)(const GradientProblem&);
constexpr Backward kReferences[] = {plain_backward, twin_backward};

// Two keys of scores 0 and ln 3: p = 1/4, 3/4, o = 3, D = 6, dP = 0, 8,
// dS = -3/2, 3/2.
TEST(GradientTest, TwoKeysWorkedOutByHand) {
  Shape shape;
  shape.Tk = 2;
  const double log_3 = std::log(3.0);
  const std::vector<double> q = {2};
  const std::vector<double> k = {0, log_3};
  const std::vector<double> v = {0, 4};
  const std::vector<double> d_o = {2};
  GradientProblem problem;
  problem.forward =
      make_problem(shape, Causal::kNone, 0.5F, q.data(), k.data(), v.data());
  problem.d_o = d_o.data();
  for (const Backward backward : kReferences) {
    const GradientOutput got = backward(problem);
    constexpr double kNear = 1e-14;
    EXPECT_NEAR(got.q[0], 0.75 * log_3, kNear);
    EXPECT_NEAR(got.k[0], -1.5, kNear);
    EXPECT_NEAR(got.k[1], 1.5, kNear);
    EXPECT_NEAR(got.v[0], 0.5, kNear);
    EXPECT_NEAR(got.v[1], 1.5, kNear);
    EXPECT_NEAR(got.bias[0], -1.5, kNear);
    EXPECT_NEAR(got.bias[1], 1.5, kNear);
    EXPECT_TRUE(got.sink.empty());
  }
}

// Two heads of one kv head see a key of score 0 beside a sink of logit 0:
// p = p_z = 1/2, o = v/2, D = g v/2, dS = g v/4, dsink = -g v/4.
TEST(GradientTest, ASinkAndAGroupWorkedOutByHand) {
  Shape shape;
  shape.H = 2;
  const std::vector<double> q = {0, 0};
  const std::vector<double> k = {5};
  const std::vector<double> v = {8};
  const std::vector<double> sink = {0, 0};
  const std::vector<double> d_o = {1, 3};
  GradientProblem problem;
  problem.forward =
      make_problem(shape, Causal::kNone, 1.0F, q.data(), k.data(), v.data());
  problem.forward.sink = sink.data();
  problem.d_o = d_o.data();
  for (const Backward backward : kReferences) {
    const GradientOutput got = backward(problem);
    EXPECT_EQ(got.q, (std::vector<double>{10, 30}));
    EXPECT_EQ(got.k, (std::vector<double>{0}));
    EXPECT_EQ(got.v, (std::vector<double>{2}));
    EXPECT_EQ(got.bias, (std::vector<double>{2, 6}));
    EXPECT_EQ(got.sink, (std::vector<double>{-2, -6}));
  }
}

// Problems draw(random, i, largest); `change` makes the problem that the twin
// is given in the control.
void expect_agreement(decltype(random_gradient) draw, uint64_t seed,
                      int problems, void (*change)(GradientProblem&)) {
  TestRandom random(seed);
  double worst = 0;
  int told_apart = 0;
  for (int i = 0; i < problems; ++i) {
    TestGradient g = draw(random, i, i % 8 == 0 ? 24 : 9);
    const GradientProblem& problem = g.get();
    const GradientOutput plain = plain_backward(problem);
    const double ratio = gradient_ratio(problem, plain, twin_backward(problem));
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ": " << ratio;
    worst = std::max(worst, ratio);
    GradientProblem other = problem;
    change(other);
    told_apart += !(gradient_ratio(problem, plain, twin_backward(other)) <= 1);
  }
  // The bound is that of plain_backward's own arithmetic, which comes near it.
  EXPECT_GT(worst, 0.05);
  EXPECT_GT(told_apart, problems / 2);
  std::printf("worst error / bound %.3f\n", worst);
}

TEST(GradientTest, TheReferencesAgree) {
  expect_agreement(random_gradient, 31, 1700,
                   [](GradientProblem& p) { p.forward.scale *= 1.5; });
}

TEST(GradientTest, TheReferencesAgreeOnListsOfKeys) {
  expect_agreement(random_list_gradient, 34, 500,
                   [](GradientProblem& p) { p.forward.listed = {}; });
}

TEST(GradientTest, TheReferencesAgreeOnRotations) {
  expect_agreement(random_turned_gradient, 36, 500,
                   [](GradientProblem& p) { p.forward.rotation = {}; });
}

// One query and two keys, q k exact: a quarter turn of the second key alone.
TEST(GradientTest, AQuarterTurnWorkedOutByHand) {
  Shape shape;
  shape.d = 2;
  shape.Tk = 2;
  const std::vector<double> q = {0, 0};
  const std::vector<double> k = {1, 0, 1, 2};
  const std::vector<double> v = {0, 4};
  const std::vector<double> d_o = {2};
  const std::vector<double> cos = {1, 0}, sin = {0, 1};
  const std::vector<int64_t> first = {0}, both = {0, 1};
  GradientProblem problem;
  problem.forward =
      make_problem(shape, Causal::kNone, 1.0F, q.data(), k.data(), v.data());
  problem.forward.rotation = {
      RopeStyle::kHalf, 2, cos.data(), sin.data(), first.data(), both.data()};
  problem.d_o = d_o.data();
  for (const Backward backward : kReferences) {
    // p = 1/2, D = 4, dS = -2, 2; the second key is read as (-2, 1).
    EXPECT_EQ(backward(problem).q, (std::vector<double>{-6, 2}));
    // Now the query is turned, and no key.
    GradientProblem other = problem;
    other.forward.rotation.q_positions = &both[1];
    const std::vector<int64_t> none = {0, 0};
    other.forward.rotation.k_positions = none.data();
    EXPECT_EQ(backward(other).q, (std::vector<double>{4, 0}));
  }
}

class SeededGradientTest : public testing::TestWithParam<int> {};

TEST_P(SeededGradientTest, IsCaughtByTheOtherReference) {
  constexpr int kProblems = 340;
  const auto fault = static_cast<SeededGradientFault>(GetParam());
  TestRandom random(8);
  int caught = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestGradient g = i % 2 == 0 ? random_gradient(random, i, 9)
                                : random_turned_gradient(random, i, 9);
    const GradientProblem& problem = g.get();
    const GradientOutput faulty = seeded_backward(fault, problem);
    const double ratio =
        seeded_in_plain(fault)
            ? gradient_ratio(problem, faulty, twin_backward(problem))
            : gradient_ratio(problem, plain_backward(problem), faulty);
    caught += !(ratio <= 1);
  }
  EXPECT_GT(caught, 0);
  std::printf("%s: caught in %d of %d problems\n",
              std::string(seeded_gradient_fault_name(fault)).c_str(), caught,
              kProblems);
}

INSTANTIATE_TEST_SUITE_P(AllFaults, SeededGradientTest,
                         testing::Range(0, kSeededGradientFaultCount),
                         [](const testing::TestParamInfo<int>& fault) {
                           return std::string(seeded_gradient_fault_name(
                               static_cast<SeededGradientFault>(fault.param)));
                         });

// Each member moves the input that it is the gradient of.
GradientDirection direction_of(const GradientOutput& way) {
  return {way.q.data(), way.k.data(), way.v.data(), way.bias.data(),
          way.sink.empty() ? nullptr : way.sink.data()};
}

// Nothing moves where an input holds NaN or hides a key.
std::vector<double> moves(TestRandom& random, const double* x, int64_t count) {
  std::vector<double> direction(count);
  for (int64_t a = 0; a < count; ++a) {
    const double step = random.normal();
    direction[a] = x != nullptr && std::isfinite(x[a]) ? step : 0;
  }
  return direction;
}

GradientOutput random_direction(TestRandom& random, const Problem& call) {
  const Shape& s = call.shape;
  GradientOutput all;
  all.q = moves(random, call.q, s.q_elements());
  all.k = moves(random, call.k, s.k_elements());
  all.v = moves(random, call.v, s.v_elements());
  all.bias = moves(random, call.bias, s.weights_elements());
  if (call.sink != nullptr) all.sink = moves(random, call.sink, s.H);
  return all;
}

Identity identity(const GradientProblem& problem, const GradientOutput& got,
                  const GradientBound& bound, const GradientOutput& way) {
  Identity both;
  both.add(got.q, way.q, bound.q);
  both.add(got.k, way.k, bound.k);
  both.add(got.v, way.v, bound.v);
  both.add(got.bias, way.bias, bound.bias);
  both.add(got.sink, way.sink, bound.sink);
  both.compare(directional_derivative(problem, direction_of(way)));
  return both;
}

GradientBound double_bound(GradientProblem problem,
                           const GradientOutput& truth) {
  const OracleOutput given = plain_forward(problem.forward);
  problem.o = given.o.data();
  problem.lse = given.lse.data();
  return gradient_bound_of(problem, given, truth, double_precision());
}

bool anything_unjudged(const Identity& both) { return !(both.allowed < 1e100); }

void expect_adjoint(decltype(random_gradient) draw, uint64_t seed,
                    int problems) {
  TestRandom random(seed);
  int judged = 0;
  double worst = 0;
  for (int i = 0; i < problems; ++i) {
    TestGradient g = draw(random, i, 8);
    const GradientProblem& problem = g.get();
    const GradientOutput way = random_direction(random, problem.forward);
    const GradientOutput got = plain_backward(problem);
    const Identity both =
        identity(problem, got, double_bound(problem, got), way);
    if (anything_unjudged(both)) continue;
    ++judged;
    ASSERT_LE(both.gap, both.allowed) << "problem " << i;
    if (both.allowed > 0) worst = std::max(worst, both.gap / both.allowed);
  }
  EXPECT_GT(judged, problems / 2);
  std::printf("%d of %d judged, worst gap / allowed %.3f\n", judged, problems,
              worst);
}

TEST(GradientTest, TheAdjointIdentityHolds) {
  expect_adjoint(random_gradient, 32, 680);
}

TEST(GradientTest, TheAdjointIdentityHoldsForListsOfKeys) {
  expect_adjoint(random_list_gradient, 35, 300);
}

TEST(GradientTest, TheAdjointIdentityHoldsForRotations) {
  expect_adjoint(random_turned_gradient, 37, 300);
}

// Faults of plain_backward that its own forward pass does not share.
TEST(GradientTest, TheAdjointIdentityCatchesFaultsOfTheDefinition) {
  using Fault = SeededGradientFault;
  for (const Fault fault :
       {Fault::kPlainDeltaMissing, Fault::kPlainKeyScaleMissing,
        Fault::kPlainHeadModulo, Fault::kPlainMaskIgnored,
        Fault::kPlainCapSlopeLost, Fault::kPlainLastRowKept,
        Fault::kPlainSinkOfKeys, Fault::kPlainNotTurnedBack}) {
    TestRandom random(33);
    int caught = 0;
    for (int i = 0; i < 170; ++i) {
      TestGradient g = i % 2 == 0 ? random_gradient(random, i, 8)
                                  : random_turned_gradient(random, i, 8);
      const GradientProblem& problem = g.get();
      const GradientOutput way = random_direction(random, problem.forward);
      const GradientBound bound =
          double_bound(problem, plain_backward(problem));
      const Identity both =
          identity(problem, seeded_backward(fault, problem), bound, way);
      caught += !anything_unjudged(both) && both.gap > both.allowed;
    }
    EXPECT_GT(caught, 0) << seeded_gradient_fault_name(fault);
  }
}

double pulled(const GradientProblem& problem, const TestProblem& moved) {
  TestProblem copy = moved;
  const OracleOutput out = twin_forward(copy.get());
  const int64_t dv = problem.forward.shape.dv;
  double sum = 0;
  for (size_t a = 0; a < out.o.size(); ++a) {
    if (out.visible[a / dv] > 0) sum += problem.d_o[a] * out.o[a];
  }
  return sum;
}

void step(std::vector<double>& x, const std::vector<double>& direction,
          double h) {
  for (size_t a = 0; a < x.size(); ++a) {
    if (direction[a] != 0) x[a] += h * direction[a];
  }
}

// Central differences of the twin are off by h^2 / 6 times the third derivative
// along the way, which is below 24,000 on calls of moderate size.
TEST(GradientTest, DirectionalDerivativesAreLimitsOfDifferences) {
  constexpr double kStep = 0x1p-16;
  constexpr double kNear = 4000 * kStep * kStep;
  TestRandom random(34);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = random_shape(random, 6);
    TestGradient g;
    g.call = random_option_problem(random, Regime::kNormal, shape);
    for (double& b : g.call.bias) b = std::isinf(b) ? b : std::fmod(b, 4);
    fill_d_o(random, g);
    give_forward(plain_forward(g.call.get()), as_f32, g);
    const GradientProblem& problem = g.get();
    const GradientOutput way = random_direction(random, problem.forward);
    double ends[2] = {};
    for (int side = 0; side < 2; ++side) {
      TestProblem moved = g.call;
      const double h = side == 0 ? -kStep : kStep;
      step(moved.q, way.q, h);
      step(moved.k, way.k, h);
      step(moved.v, way.v, h);
      step(moved.bias, way.bias, h);
      step(moved.sink, way.sink, h);
      ends[side] = pulled(problem, moved);
    }
    const double difference = (ends[1] - ends[0]) / (2 * kStep);
    const double size = static_cast<double>(shape.o_elements()) * 10;
    EXPECT_NEAR(difference, directional_derivative(problem, direction_of(way)),
                kNear * size)
        << "problem " << i;
  }
}

// Row 0 sees key 0 alone, row 1 sees keys 0 and 1; key 2 is beyond kv_len and
// row 2 beyond q_len.
TEST(GradientTest, SaysWhatIsZeroAndWhatIsNotJudged) {
  Shape shape;
  shape.Tq = shape.Tk = 4;
  TestRandom random(35);
  TestGradient g;
  g.call = random_problem(random, Regime::kNormal, shape);
  g.call.problem.causal = Causal::kTopLeft;
  g.call.q_len = {3};
  g.call.kv_len = {3};
  g.call.mask.assign(16, 1);
  // No row sees key 1, and row 0 sees no key.
  for (const int pair : {0, 1, 5, 9}) g.call.mask[pair] = 0;
  poison_rest(g.call);
  fill_d_o(random, g);
  const OracleOutput forward = plain_forward(g.call.get());
  give_forward(forward, as_f32, g);
  const GradientProblem& problem = g.get();
  const GradientOutput truth = plain_backward(problem);
  const GradientBound bound =
      backward_bound(problem, forward, truth, generic_precision());
  for (const GradientOutput& zero : {truth, twin_backward(problem)}) {
    EXPECT_EQ(zero.q[0], 0);
    EXPECT_EQ(zero.k[1], 0);
    EXPECT_EQ(zero.v[1], 0);
    EXPECT_EQ(zero.bias[1], 0);
  }
  EXPECT_EQ(bound.q[0], 0);
  EXPECT_EQ(bound.k[1], 0);
  EXPECT_EQ(bound.v[1], 0);
  EXPECT_EQ(bound.bias[1], 0);
  EXPECT_EQ(bound.q[3], kInfinity);
  EXPECT_EQ(bound.k[3], kInfinity);
  EXPECT_EQ(bound.v[3], kInfinity);
  EXPECT_EQ(bound.bias[3], kInfinity);
  EXPECT_EQ(bound.bias[12], kInfinity);
  EXPECT_GT(bound.k[0], 0);
  EXPECT_LT(bound.k[0], 1e-4);
  EXPECT_GT(bound.reach.k[0], 0);
}

}  // namespace
}  // namespace qkvet::reference::gradient_test
