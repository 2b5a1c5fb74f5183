// SPDX-License-Identifier: Apache-2.0
// Random gradients for the tests of this folder.
#ifndef QKVET_REFERENCE_TESTING_TEST_GRADIENTS_H_
#define QKVET_REFERENCE_TESTING_TEST_GRADIENTS_H_

#include <limits>
#include <utility>
#include <vector>

#include "reference/arithmetic/double_double.h"
#include "reference/gradient/gradient.h"
#include "reference/testing/test_options.h"

namespace qkvet::reference {

struct TestGradient {
  TestProblem call;
  std::vector<double> d_o;
  std::vector<double> o, lse;  // what a kernel is given
  GradientProblem problem;

  // Copies move the data: point at it when it is used.
  const GradientProblem& get() {
    problem.forward = call.get();
    problem.d_o = d_o.data();
    problem.o = o.data();
    problem.lse = lse.data();
    return problem;
  }
};

// The adjoint identity: the sum of gradient times direction is the derivative
// in that direction.
struct Identity {
  DoubleDouble sum = 0.0;
  double gap = 0;      // of both sides
  double allowed = 0;  // the bound of the gradient

  void add(const std::vector<double>& gradient,
           const std::vector<double>& direction,
           const std::vector<double>& bound) {
    for (size_t a = 0; a < gradient.size(); ++a) {
      if (direction[a] == 0) continue;
      sum = sum + two_product(gradient[a], direction[a]);
      allowed += std::fabs(direction[a]) * bound[a];
    }
  }
  // Both sides are rounded to double once.
  void compare(double derivative) {
    gap = std::fabs((sum - derivative).hi);
    allowed += 0x1p-52 * std::fabs(derivative);
  }
};

// As the regime is: small, large, integers, cancelling, of one column.
inline void fill_d_o(TestRandom& random, TestGradient& g) {
  const Shape& s = g.call.problem.shape;
  g.d_o.resize(s.o_elements());
  const Regime regime = g.call.regime;
  const double size = std::pow(10, 3 * random.uniform() - 2);
  const int64_t column = random.below(s.dv);
  for (int64_t a = 0; a < s.o_elements(); ++a) {
    double& x = g.d_o[a];
    x = random.normal();
    if (regime == Regime::kLogScale) x *= size;
    if (regime == Regime::kHeavy) x = random.heavy();
    if (regime == Regime::kTiny) x *= random.below(2) == 0 ? 1e-38 : 1;
    if (regime == Regime::kLattice || regime == Regime::kCount) {
      x = double(random.below(9) - 4);
    }
    if (regime == Regime::kOneHotV) x = a % s.dv == column;
    if (regime == Regime::kConstV) x = a % s.dv == column ? 100 : 0.1 * x;
  }
}

// `truth` is the forward pass of either reference; o and lse are rounded by
// `store_o` and to f32, d_o by `store_o`. Rows that are not counted hold NaN.
template <class Store>
void give_forward(const OracleOutput& truth, Store store_o, TestGradient& g) {
  const Shape& s = g.call.problem.shape;
  g.o = truth.o;
  g.lse = truth.lse;
  for (double& x : g.o) x = store_o(x);
  for (double& x : g.lse) x = static_cast<float>(x);
  for (double& x : g.d_o) x = store_o(x);
  for (int64_t a = 0; a < s.o_elements(); ++a) {
    if (truth.visible[a / s.dv] != kRowNotCounted) continue;
    g.d_o[a] = std::numeric_limits<double>::quiet_NaN();
  }
}

inline TestGradient gradient_of_call(TestRandom& random, TestProblem call) {
  TestGradient g;
  g.call = std::move(call);
  fill_d_o(random, g);
  give_forward(plain_forward(g.call.get()), as_f32, g);
  return g;
}

// A call and d_o in f32, every second one with options.
inline TestGradient random_gradient(TestRandom& random, int problem,
                                    int64_t largest) {
  const auto regime = static_cast<Regime>(problem % kRegimeCount);
  const Shape shape = random_shape(random, largest);
  return gradient_of_call(
      random, problem % 2 == 0 ? random_problem(random, regime, shape)
                               : random_option_problem(random, regime, shape));
}

// The same with lists of keys.
inline TestGradient random_list_gradient(TestRandom& random, int problem,
                                         int64_t largest) {
  const auto regime = static_cast<Regime>(problem % kRegimeCount);
  const Shape shape = random_shape(random, largest);
  return gradient_of_call(random, random_list_problem(random, regime, shape));
}

// The same with a rotation.
inline TestGradient random_turned_gradient(TestRandom& random, int problem,
                                           int64_t largest) {
  const auto regime = static_cast<Regime>(problem % kRegimeCount);
  const Shape shape = with_even_width(random_shape(random, largest));
  TestProblem call = problem % 2 == 0
                         ? random_problem(random, regime, shape)
                         : random_option_problem(random, regime, shape);
  add_rotation(random, call);
  return gradient_of_call(random, std::move(call));
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_GRADIENTS_H_
