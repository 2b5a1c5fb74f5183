// SPDX-License-Identifier: Apache-2.0
// Random calls with dropout for the tests of this folder, and forward kernels
// in f32 that are right, or wrong in one way. Gradients:
// BackwardKernel::dropout.
#ifndef QKVET_REFERENCE_TESTING_TEST_DROPOUT_H_
#define QKVET_REFERENCE_TESTING_TEST_DROPOUT_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/options/dropout.h"
#include "reference/testing/test_gradients.h"

namespace qkvet::reference {

// Places where a correct kernel may apply the factor.
enum class FactorAt : uint8_t { kWeights, kExponentials, kDivided, kOutput };
constexpr FactorAt kFactorAt[] = {FactorAt::kWeights, FactorAt::kExponentials,
                                  FactorAt::kDivided, FactorAt::kOutput};

enum class Wrong : uint8_t { kNothing, kScaledByP, kNotScaled, kRenormalised };

struct TestDropout {
  TestGradient g;
  std::vector<uint8_t> kept;
  DropoutProblem problem;

  const DropoutProblem& get() {
    problem.forward = g.get().forward;
    problem.kept = kept.data();
    return problem;
  }
};

// Every second one with options, as far as there is a derivation.
inline TestDropout random_dropout(TestRandom& random, int number) {
  constexpr float kP[] = {0.1F, 0.5F, 0.9F, 0.37F};
  TestDropout drop;
  do {
    drop.g = random_gradient(random, number, 10);
  } while (!dropout_not_derived(drop.g.get().forward).empty());
  const double p = kP[random.below(4)];
  drop.problem.p = p;
  drop.kept.resize(drop.g.call.problem.shape.weights_elements());
  for (uint8_t& kept : drop.kept) kept = random.uniform() >= p ? 1 : 0;
  return drop;
}

inline float factor_of(double p, Wrong wrong) {
  const auto dropped = static_cast<float>(p);
  if (wrong == Wrong::kScaledByP) return 1 / dropped;
  return wrong == Wrong::kNotScaled ? 1 : 1 / (1 - dropped);
}

// One row in f32, sequentially.
struct F32Row {
  std::vector<float> scaled, scores, weights;  // [Tk], 0 where not seen
  float max = -INFINITY, sum = 0;
};

inline F32Row softmax_of(const Problem& call, const OracleOutput& forward,
                         int64_t r) {
  const Shape& s = call.shape;
  const int64_t b = r / (s.H * s.Tq), h = r / s.Tq % s.H;
  const double* k = call.k + (b * s.Hkv + h / s.group()) * s.Tk * s.d;
  const auto cap = static_cast<float>(call.softcap);
  const auto capped = [cap](float x) {
    return cap > 0 ? cap * std::tanh(x / cap) : x;
  };
  F32Row row;
  for (auto* part : {&row.scaled, &row.scores, &row.weights})
    part->resize(s.Tk);
  const auto scale = static_cast<float>(call.scale);
  if (call.sink != nullptr) row.max = static_cast<float>(call.sink[h]);
  for (int64_t j = 0; j < s.Tk; ++j) {
    if (forward.sees[r * s.Tk + j] == 0) continue;
    float dot = 0;
    for (int64_t c = 0; c < s.d; ++c)
      dot += static_cast<float>(call.q[r * s.d + c]) *
             static_cast<float>(k[j * s.d + c]);
    const float bias =
        call.bias != nullptr ? static_cast<float>(call.bias[r * s.Tk + j]) : 0;
    const bool after = call.softcap_after_bias;
    row.scaled[j] = dot * scale + (after ? bias : 0);
    row.scores[j] = capped(row.scaled[j]) + (after ? 0 : bias);
    row.max = std::max(row.max, row.scores[j]);
  }
  if (call.sink != nullptr)
    row.sum = std::exp(static_cast<float>(call.sink[h]) - row.max);
  for (int64_t j = 0; j < s.Tk; ++j) {
    if (forward.sees[r * s.Tk + j] == 0) continue;
    row.weights[j] = std::exp(row.scores[j] - row.max);
    row.sum += row.weights[j];
  }
  return row;
}

inline std::vector<double> run_f32(const DropoutProblem& problem,
                                   const OracleOutput& forward, FactorAt at,
                                   Wrong wrong = Wrong::kNothing) {
  const Problem& call = problem.forward;
  const Shape& s = call.shape;
  std::vector<double> o = forward.o;  // what rows without a key have
  const float factor = factor_of(problem.p, wrong);
  for (int64_t r = 0; r < s.lse_elements(); ++r) {
    if (forward.visible[r] <= 0) continue;
    const int64_t b = r / (s.H * s.Tq), h = r / s.Tq % s.H;
    const double* v = call.v + (b * s.Hkv + h / s.group()) * s.Tk * s.dv;
    const F32Row row = softmax_of(call, forward, r);
    float sum = row.sum;
    if (wrong == Wrong::kRenormalised) {
      sum = 0;
      for (int64_t j = 0; j < s.Tk; ++j)
        sum += problem.kept[r * s.Tk + j] != 0 ? row.weights[j] : 0;
    }
    for (int64_t t = 0; t < s.dv; ++t) {
      float acc = 0;
      for (int64_t j = 0; j < s.Tk; ++j) {
        const int64_t pair = r * s.Tk + j;
        if (forward.sees[pair] == 0 || problem.kept[pair] == 0) continue;
        const auto value = static_cast<float>(v[j * s.dv + t]);
        const float w = row.weights[j];
        if (at == FactorAt::kWeights)
          acc += w / sum * factor * value;
        else if (at == FactorAt::kExponentials)
          acc += w * factor * value;
        else if (at == FactorAt::kDivided)
          acc += w / (1 / factor) * value;
        else
          acc += w * value;
      }
      if (at != FactorAt::kWeights) acc /= sum;
      if (at == FactorAt::kOutput) acc *= factor;
      o[r * s.dv + t] = acc;
    }
  }
  return o;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_DROPOUT_H_
