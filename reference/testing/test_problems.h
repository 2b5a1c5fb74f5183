// SPDX-License-Identifier: Apache-2.0
// Random problems for the tests of this folder. Every regime aims at a term of
// the bound or at a decision of the definition; a uniform mix would leave most
// of them untouched.
#ifndef QKVET_REFERENCE_TESTING_TEST_PROBLEMS_H_
#define QKVET_REFERENCE_TESTING_TEST_PROBLEMS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : engine_(seed) {}
  // By name: a kernel more in a list leaves the numbers of the others alone.
  explicit TestRandom(std::string_view name) : engine_(fnv(name)) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  int64_t below(int64_t n) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n));
  }
  // Sum of uniforms: mean 0, variance 1, no libm.
  double normal() {
    constexpr int kTerms = 12;  // each of variance 1/12
    double sum = -kTerms / 2.0;
    for (int i = 0; i < kTerms; ++i) sum += uniform();
    return sum;
  }
  double heavy() {
    return std::clamp(normal() / (0.02 + std::fabs(normal())), -1e3, 1e3);
  }

 private:
  static uint64_t fnv(std::string_view name) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char c : name)
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
  }

  std::mt19937_64 engine_;
};

enum class Regime : uint8_t {
  kNormal,
  kSmall,      // x 0.01: exponents near 0, sums dominate
  kLogScale,   // x 0.01 .. 10
  kHeavy,      // heavy tails
  kLarge,      // x 30: one-hot rows, large logits
  kPeaked,     // each query is a multiple of one key
  kEqualKeys,  // uniform weights
  kCancelV,    // o is small against V
  kCancelDot,  // q.k is small against its terms
  kOffset,     // all keys shifted: large scores, small differences
  kFarBelow,   // every score below -800: exp underflows without a shift
  kLattice,    // exact scores
  kCount,      // q = 0, V in {0, 1}: exact in every order
  kOneHotV,    // o is a weight
  kConstV,
  kTiny,    // subnormal products
  kSorted,  // each key beats all before it: every tile rescales
};
inline constexpr int kRegimeCount = 17;

struct TestProblem {
  Regime regime = Regime::kNormal;
  Problem problem;
  std::vector<double> q, k, v;
  // Options (test_options.h); empty: absent.
  std::vector<uint8_t> mask;
  std::vector<double> bias, slopes, sink;
  std::vector<int64_t> q_len, kv_len, cu_q, cu_k;
  std::vector<double> rope_cos, rope_sin;
  std::vector<int64_t> q_positions, k_positions;
  std::vector<int64_t> segments_q, segments_k, full_ranges;
  std::vector<uint8_t> tree;
  std::vector<int32_t> listed_keys, listed_counts;

  // Copies move the data: point at it when it is used.
  const Problem& get() {
    problem.q = q.data();
    problem.k = k.data();
    problem.v = v.data();
    const auto optional = [](const auto& all) {
      return all.empty() ? nullptr : all.data();
    };
    problem.mask = optional(mask);
    problem.bias = optional(bias);
    problem.slopes = optional(slopes);
    problem.sink = optional(sink);
    problem.listed.keys = optional(listed_keys);
    problem.listed.counts = optional(listed_counts);
    problem.q_len = optional(q_len);
    problem.kv_len = optional(kv_len);
    problem.cu_q = optional(cu_q);
    problem.cu_k = optional(cu_k);
    problem.rotation = {problem.rotation.style, problem.rotation.channels,
                        optional(rope_cos),     optional(rope_sin),
                        optional(q_positions),  optional(k_positions)};
    problem.fields.segments_q = optional(segments_q);
    problem.fields.segments_k = optional(segments_k);
    problem.fields.full_ranges = optional(full_ranges);
    problem.fields.tree = optional(tree);
    return problem;
  }
};

inline void round_to_f32(std::vector<double>& x) {
  for (double& value : x) value = static_cast<float>(value);
}

// Regimes that rescale whole tensors.
inline void fill_values(TestRandom& random, TestProblem& p) {
  double size_qk = 1;
  double size_v = 1;
  if (p.regime == Regime::kSmall) size_qk = size_v = 0.01;
  if (p.regime == Regime::kLarge) size_qk = size_v = 30;
  if (p.regime == Regime::kLogScale) {
    size_qk = std::pow(10, 3 * random.uniform() - 2);
    size_v = std::pow(10, 3 * random.uniform() - 2);
  }
  if (p.regime == Regime::kTiny) {
    size_qk = random.below(2) == 0 ? 1e-19 : 1;
    size_v = 1e-38;
  }
  const bool heavy = p.regime == Regime::kHeavy;
  const auto draw = [&] { return heavy ? random.heavy() : random.normal(); };
  for (double& x : p.q) x = size_qk * draw();
  for (double& x : p.k) x = size_qk * draw();
  for (double& x : p.v) x = size_v * draw();
}

// Regimes that act on keys.
inline void shape_keys(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  const double offset = 300 * random.uniform();
  const double slope = 2 * random.uniform() / std::sqrt(double(s.d));
  for (int64_t key = 0; key < s.B * s.Hkv * s.Tk; ++key) {
    double* k = p.k.data() + key * s.d;
    const int64_t j = key % s.Tk;
    const double cancel = 30 * random.normal();
    for (int64_t c = 0; c < s.d; ++c) {
      if (p.regime == Regime::kEqualKeys && j > 0) k[c] = (k - j * s.d)[c];
      if (p.regime == Regime::kOffset) k[c] += offset;
      if (p.regime == Regime::kFarBelow) k[c] = -1000 - std::fabs(k[c]);
      if (p.regime == Regime::kLattice) k[c] = double(random.below(9) - 4) / 4;
      if (p.regime == Regime::kCancelDot && c < 2) k[c] = cancel;
      if (p.regime == Regime::kSorted) {
        k[c] = 0.1 * k[c] + slope * static_cast<double>(j);
      }
    }
  }
}

// Regimes that act on queries.
inline void shape_queries(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  for (int64_t row = 0; row < s.B * s.H * s.Tq; ++row) {
    double* q = p.q.data() + row * s.d;
    const int64_t key = random.below(s.B * s.Hkv * s.Tk);
    const double gain = 1 + 8 * random.uniform();
    const double cancel = 10 * random.normal();
    for (int64_t c = 0; c < s.d; ++c) {
      if (p.regime == Regime::kPeaked) q[c] = gain * p.k[key * s.d + c];
      if (p.regime == Regime::kFarBelow) q[c] = 1 + 0.1 * std::fabs(q[c]);
      if (p.regime == Regime::kSorted) q[c] = std::fabs(q[c]);
      if (p.regime == Regime::kLattice) q[c] = double(random.below(9) - 4);
      if (p.regime == Regime::kCount) q[c] = 0;
      if (p.regime == Regime::kCancelDot && c < 2) q[c] = c ? -cancel : cancel;
    }
  }
}

// Regimes that act on values.
inline void shape_values(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  const double big = std::pow(10, 1 + 2 * random.uniform());
  for (int64_t key = 0; key < s.B * s.Hkv * s.Tk; ++key) {
    double* v = p.v.data() + key * s.dv;
    const int64_t j = key % s.Tk;
    for (int64_t t = 0; t < s.dv; ++t) {
      if (p.regime == Regime::kCancelV) v[t] += j % 2 ? big : -big;
      if (p.regime == Regime::kLattice) v[t] = double(random.below(17) - 8);
      if (p.regime == Regime::kCount) v[t] = double(random.below(2));
      if (p.regime == Regime::kOneHotV) v[t] = j == (t * 7) % s.Tk;
      if (p.regime == Regime::kConstV && j > 0) v[t] = (v - j * s.dv)[t];
    }
  }
}

// Extents are independent of one another; `largest` bounds Tq, Tk, d and dv.
inline Shape random_shape(TestRandom& random, int64_t largest) {
  Shape s;
  s.B = 1 + random.below(2);
  s.Hkv = 1 + random.below(3);
  s.H = s.Hkv * (1 + random.below(3));
  s.Tq = 1 + random.below(std::min<int64_t>(largest, 12));
  s.Tk = 1 + random.below(largest);
  s.d = 1 + random.below(largest);
  s.dv = 1 + random.below(std::min<int64_t>(largest, 12));
  return s;
}

inline TestProblem random_problem(TestRandom& random, Regime regime,
                                  const Shape& shape) {
  TestProblem p;
  p.regime = regime;
  p.problem.shape = shape;
  p.problem.causal = static_cast<Causal>(random.below(3));
  p.problem.scale_given = random.below(2) != 0;
  p.problem.scale = default_scale(shape.d);
  if (p.problem.scale_given) {
    p.problem.scale = static_cast<float>(p.problem.scale);
  }
  p.q.resize(shape.q_elements());
  p.k.resize(shape.k_elements());
  p.v.resize(shape.v_elements());
  fill_values(random, p);
  shape_keys(random, p);
  shape_queries(random, p);
  shape_values(random, p);
  round_to_f32(p.q);
  round_to_f32(p.k);
  round_to_f32(p.v);
  return p;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_PROBLEMS_H_
