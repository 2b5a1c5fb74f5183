// SPDX-License-Identifier: Apache-2.0
// Random projections and layers for the tests of this folder, as in
// test_problems.h.
#ifndef QKVET_REFERENCE_TESTING_TEST_LAYERS_H_
#define QKVET_REFERENCE_TESTING_TEST_LAYERS_H_

#include <cmath>
#include <utility>
#include <vector>

#include "core/base/half.h"
#include "reference/layer/layer.h"
#include "reference/testing/test_options.h"
#include "reference/testing/test_problems.h"

namespace qkvet::reference {

enum class LinearRegime : uint8_t {
  kNormal,
  kLogScale,  // every element of its own size, 1e-3 .. 1e3
  kHeavy,     // heavy tails
  kCancel,    // pairs of terms nearly cancel: y is small against its terms
  kOneBig,    // one term above all others
  kPositive,  // no cancellation at all
  kLattice,   // small integers and quarters: exact
  kOneHot,    // x selects one row of W: exact without a bias
  kIdentity,  // W is the unit matrix: the bias is the only rounding
  kTiny,      // subnormal products
};
inline constexpr int kLinearRegimeCount = 10;

struct TestLinearProblem {
  LinearRegime regime = LinearRegime::kNormal;
  LinearProblem problem;
  std::vector<double> x, w, bias;
  bool has_bias = false;

  const LinearProblem& get() {
    problem.x = x.data();
    problem.w = w.data();
    problem.bias = has_bias ? bias.data() : nullptr;
    return problem;
  }
};

inline double linear_value(TestRandom& random, LinearRegime regime) {
  switch (regime) {
    case LinearRegime::kLogScale:
      return random.normal() * std::pow(10, 6 * random.uniform() - 3);
    case LinearRegime::kHeavy:
      return random.heavy();
    case LinearRegime::kPositive:
      return std::fabs(random.normal());
    case LinearRegime::kLattice:
      return static_cast<double>(random.below(17) - 8) / 4;
    case LinearRegime::kTiny:
      return random.normal() * 1e-19;
    default:
      return random.normal();
  }
}

inline void shape_linear(TestRandom& random, TestLinearProblem& p) {
  const int64_t in = p.problem.in;
  const int64_t out = p.problem.out;
  for (int64_t r = 0; r < p.problem.rows; ++r) {
    double* x = p.x.data() + r * in;
    const int64_t chosen = random.below(in);
    for (int64_t i = 0; i < in; ++i) {
      if (p.regime == LinearRegime::kOneHot) x[i] = i == chosen;
      if (p.regime == LinearRegime::kOneBig && i == chosen) x[i] *= 1e4;
      if (p.regime == LinearRegime::kCancel && i % 2 == 1) x[i] = x[i - 1];
    }
  }
  for (int64_t i = 0; i < in; ++i) {
    double* w = p.w.data() + i * out;
    for (int64_t j = 0; j < out; ++j) {
      if (p.regime == LinearRegime::kIdentity) w[j] = i == j;
      if (p.regime == LinearRegime::kCancel && i % 2 == 1) {
        w[j] = -(w - out)[j] * (1 + 1e-5 * random.normal());
      }
    }
  }
}

inline void round_all(std::vector<double>& x, Dtype storage) {
  for (double& value : x) value = round_to(storage, value);
}

// `largest` bounds in and out.
inline TestLinearProblem random_linear(TestRandom& random, LinearRegime regime,
                                       int64_t largest, Dtype storage) {
  TestLinearProblem p;
  p.regime = regime;
  p.problem.rows = 1 + random.below(4);
  p.problem.in = 1 + random.below(largest);
  p.problem.out = 1 + random.below(largest);
  if (random.below(3) == 0) p.problem.out = p.problem.in;
  p.has_bias = random.below(2) != 0;
  p.x.resize(p.problem.rows * p.problem.in);
  p.w.resize(p.problem.in * p.problem.out);
  p.bias.resize(p.problem.out);
  for (auto* tensor : {&p.x, &p.w, &p.bias}) {
    for (double& value : *tensor) value = linear_value(random, regime);
  }
  shape_linear(random, p);
  for (auto* tensor : {&p.x, &p.w, &p.bias}) round_all(*tensor, storage);
  return p;
}

enum class LayerRegime : uint8_t {
  kNormal,
  kSmall,    // scores near 0
  kLarge,    // rows with one key
  kHeavy,    // heavy tails in x
  kLattice,  // small integers: exact projections
  kOneHot,   // every matrix selects columns
};
inline constexpr int kLayerRegimeCount = 6;

struct TestLayerProblem {
  LayerRegime regime = LayerRegime::kNormal;
  LayerProblem problem;
  std::vector<double> x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o;
  bool has_biases = false;
  std::vector<double> rope_cos, rope_sin;  // empty: no rotation
  std::vector<int64_t> positions;

  const LayerProblem& get() {
    problem.x = x.data();
    problem.w_q = w_q.data();
    problem.w_k = w_k.data();
    problem.w_v = w_v.data();
    problem.w_o = w_o.data();
    problem.b_q = has_biases ? b_q.data() : nullptr;
    problem.b_k = has_biases ? b_k.data() : nullptr;
    problem.b_v = has_biases ? b_v.data() : nullptr;
    problem.b_o = has_biases ? b_o.data() : nullptr;
    problem.rotation.cos = rope_cos.data();
    problem.rotation.sin = rope_sin.data();
    problem.rotation.q_positions = positions.data();
    return problem;
  }
};

inline std::vector<double> random_matrix(TestRandom& random, LayerRegime regime,
                                         int64_t in, int64_t out) {
  // Columns of length 1 keep the size of x.
  double size = 1 / std::sqrt(static_cast<double>(in));
  if (regime == LayerRegime::kSmall) size *= 0.1;
  if (regime == LayerRegime::kLarge) size *= 4;
  std::vector<double> w(in * out);
  for (double& value : w) {
    value = size * random.normal();
    if (regime == LayerRegime::kLattice) value = double(random.below(3) - 1);
    if (regime == LayerRegime::kOneHot) value = 0;
  }
  if (regime == LayerRegime::kOneHot) {
    for (int64_t j = 0; j < out; ++j) w[random.below(in) * out + j] = 1;
  }
  return w;
}

inline std::vector<double> random_vector(TestRandom& random, LayerRegime regime,
                                         int64_t count) {
  std::vector<double> x(count);
  for (double& value : x) {
    value = regime == LayerRegime::kHeavy ? random.heavy() : random.normal();
    if (regime == LayerRegime::kLattice) value = double(random.below(5) - 2);
  }
  return x;
}

inline Shape random_layer_shape(TestRandom& random, int64_t largest) {
  Shape s = random_shape(random, largest);
  s.Tk = s.Tq;
  s.D = 1 + random.below(largest);
  // Where W_K and W_V have one shape, they can be mistaken for each other.
  if (random.below(2) == 0) s.dv = s.d;
  return s;
}

inline void add_layer_rotation(TestRandom& random, TestLayerProblem& p) {
  TestProblem like;
  like.problem.shape = p.problem.shape;
  add_rotation(random, like);
  p.rope_cos = std::move(like.rope_cos);
  p.rope_sin = std::move(like.rope_sin);
  p.positions = std::move(like.q_positions);
  p.problem.rotation.style = like.problem.rotation.style;
  p.problem.rotation.channels = like.problem.rotation.channels;
}

inline TestLayerProblem random_layer(TestRandom& random, LayerRegime regime,
                                     const Shape& s, Dtype storage) {
  TestLayerProblem p;
  p.regime = regime;
  p.problem.shape = s;
  p.problem.causal = static_cast<Causal>(random.below(3));
  p.problem.scale_given = random.below(2) != 0;
  p.problem.scale = default_scale(s.d);
  if (p.problem.scale_given) {
    p.problem.scale = static_cast<float>(p.problem.scale);
  }
  p.has_biases = random.below(2) != 0;
  p.x = random_vector(random, regime, s.B * s.Tq * s.D);
  p.w_q = random_matrix(random, regime, s.D, s.H * s.d);
  p.w_k = random_matrix(random, regime, s.D, s.Hkv * s.d);
  p.w_v = random_matrix(random, regime, s.D, s.Hkv * s.dv);
  p.w_o = random_matrix(random, regime, s.H * s.dv, s.D);
  p.b_q = random_vector(random, regime, s.H * s.d);
  p.b_k = random_vector(random, regime, s.Hkv * s.d);
  p.b_v = random_vector(random, regime, s.Hkv * s.dv);
  p.b_o = random_vector(random, regime, s.D);
  for (auto* tensor :
       {&p.x, &p.w_q, &p.w_k, &p.w_v, &p.w_o, &p.b_q, &p.b_k, &p.b_v, &p.b_o}) {
    round_all(*tensor, storage);
  }
  if (s.d % 2 == 0 && random.below(2) == 0) add_layer_rotation(random, p);
  return p;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_LAYERS_H_
