// SPDX-License-Identifier: Apache-2.0
// The pieces that the controls are put together from. Each rounds exactly where
// its comment says, with neither contraction nor reassociation, so that what a
// control declares can be read off here.
#ifndef QKVET_IMPL_CONTROLS_ARITHMETIC_H_
#define QKVET_IMPL_CONTROLS_ARITHMETIC_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/row_frame.h"

namespace qkvet::impl {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// sum_c q[c] * k[c * step], in an order that the function's name tells.
using DotFunction = float (*)(const float* q, const float* k, int64_t step,
                              int64_t n);
using ExpFunction = float (*)(float x);

// One lane, ascending; products rounded.
inline float dot_ascending(const float* q, const float* k, int64_t step,
                           int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) {
    sum += q[c] * k[c * step];
  }
  return sum;
}

inline float libm_exp(float x) { return std::exp(x); }

// log2(e) as a float: off by 0.23 units of 2^-24.
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2 = 0.693147181f;
// exp2((s - m) * log2(e)): the difference 1, the constant 0.23, the product 1.
inline constexpr double kExp2ArgRoundings = 2.3;

inline float libm_exp2(float x) { return std::exp2(x * kLog2E); }

// acc[c] += weight * v[c * step]: one rounded product, one addition a column.
inline void add_weighted(float weight, const float* v, int64_t step, float* acc,
                         int64_t n) {
  if (step == 1) {  // the same bits, and the compiler vectorises it
    for (int64_t c = 0; c < n; ++c) {
      acc[c] += weight * v[c];
    }
    return;
  }
  for (int64_t c = 0; c < n; ++c) {
    acc[c] += weight * v[c * step];
  }
}

inline void fill(float* data, int64_t n, float value) {
  for (int64_t c = 0; c < n; ++c) {
    data[c] = value;
  }
}

// o = acc / sum: one division an element.
inline void write_quotient(const Row& row, const float* acc, float sum) {
  for (int64_t c = 0; c < row.value_width; ++c) {
    row.o[c * row.o_step] = acc[c] / sum;
  }
}

// The score of key number n, whose product with q is `dot`.
using ScoreFunction = float (*)(const Row& row, float dot, int64_t n);

inline float usual_score(const Row& row, float dot, int64_t n) {
  return row.score(dot * row.scale, n);
}

// The scores of all keys into row.scores; returns the maximum of them and
// `max` (a NaN is left out of it and comes back as a NaN weight).
template <DotFunction Dot, ScoreFunction Score = usual_score>
float score_keys(const Row& row, float max) {
  for (int64_t j = 0; j < row.keys; ++j) {
    const float dot = Dot(row.q, row.k.row(j), row.k.step, row.width);
    row.scores[j] = Score(row, dot, j);
    max = std::fmax(max, row.scores[j]);
  }
  return max;
}

// What a softmax was divided by: sum, in units of exp(max).
struct Denominator {
  float max;
  float sum;

  float lse() const { return max + std::log(sum); }
};

// All scores, their maximum, then exponentials, denominator and P v in one
// pass over the keys, first to last or last to first; divided at the end. The
// sink comes first; without one it is -infinity and adds 0.
template <DotFunction Dot, ExpFunction Exp, bool kDescending = false,
          ScoreFunction Score = usual_score>
struct TwoPass {
  static void row(const Row& row) { row.write_lse(output(row).lse()); }

  // Writes o.
  static Denominator output(const Row& row) {
    const float max = score_keys<Dot, Score>(row, row.terms.sink);
    float sum = Exp(row.terms.sink - max);
    fill(row.acc, row.value_width, 0);
    for (int64_t n = 0; n < row.keys; ++n) {
      const int64_t j = kDescending ? row.keys - 1 - n : n;
      const float weight = Exp(row.scores[j] - max);
      sum += weight;
      add_weighted(weight, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    write_quotient(row, row.acc, sum);
    return {max, sum};
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_ARITHMETIC_H_
