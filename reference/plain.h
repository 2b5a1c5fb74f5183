// SPDX-License-Identifier: Apache-2.0
// The definition of attention, in double, in four named passes per row:
//
//   scores  s_j = scale * sum_c q_c k_jc          over the keys that row i sees
//   softmax w_j = exp(s_j - m), m = max s_j;  L = sum w_j;  p_j = w_j / L
//   lse     m + ln L
//   values  o = sum_j p_j v_j
//
// Each decision of the definition is one member of PlainSeams, so that a seeded
// fault (reference/seeded.cpp) replaces exactly one of them. Include oracle.h
// to call the oracle; this header is for the oracle itself and its faults.
#ifndef QKVET_REFERENCE_PLAIN_H_
#define QKVET_REFERENCE_PLAIN_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/oracle.h"

namespace qkvet {

struct PlainSeams {
  static bool visible(const Problem& problem, int64_t i, int64_t j) {
    const Shape& shape = problem.shape;
    switch (problem.causal) {
      case Causal::kNone:
        return true;
      case Causal::kTopLeft:
        return j <= i;
      case Causal::kBottomRight:
        return j <= i + shape.Tk - shape.Tq;
    }
    return false;
  }
  static int64_t kv_head(const Shape& shape, int64_t h) {
    return h / (shape.H / shape.Hkv);
  }
  static double scale(const Problem& problem) { return problem.scale; }
  // Where the shift of the softmax starts, before it grows to the largest
  // score.
  static double shift_start() {
    return -std::numeric_limits<double>::infinity();
  }
  static double exponential(double x) { return std::exp(x); }
  static double normalise(double w, double sum) { return w / sum; }
};

// One query row and the keys and values of its head.
struct PlainRow {
  int64_t i = 0;
  const double* q = nullptr;    // [d]
  const double* k = nullptr;    // [Tk,d]
  const double* v = nullptr;    // [Tk,dv]
  double* o = nullptr;          // [dv]
  double* weights = nullptr;    // [Tk]
  double* lse = nullptr;        // []
  int64_t* visible = nullptr;   // []
  std::vector<int64_t>* seen;   // the keys that the row sees, ascending
  std::vector<double>* scores;  // [Tk], of the keys seen
};

template <class Seams>
void plain_scores(const Problem& problem, const PlainRow& row) {
  const Shape& shape = problem.shape;
  row.seen->clear();
  for (int64_t j = 0; j < shape.Tk; ++j) {
    if (!Seams::visible(problem, row.i, j)) continue;
    double dot = 0;
    for (int64_t c = 0; c < shape.d; ++c) {
      dot += row.q[c] * row.k[j * shape.d + c];
    }
    (*row.scores)[row.seen->size()] = Seams::scale(problem) * dot;
    row.seen->push_back(j);
  }
  *row.visible = static_cast<int64_t>(row.seen->size());
}

template <class Seams>
void plain_softmax(const PlainRow& row) {
  const size_t n = row.seen->size();
  const double* s = row.scores->data();
  double m = Seams::shift_start();
  for (size_t a = 0; a < n; ++a) m = std::max(m, s[a]);
  double sum = 0;
  for (size_t a = 0; a < n; ++a) {
    const double w = Seams::exponential(s[a] - m);
    row.weights[(*row.seen)[a]] = w;
    sum += w;
  }
  for (int64_t j : *row.seen) {
    row.weights[j] = Seams::normalise(row.weights[j], sum);
  }
  *row.lse = m + std::log(sum);
}

inline void plain_values(const Shape& shape, const PlainRow& row) {
  std::fill(row.o, row.o + shape.dv, 0.0);
  for (int64_t j : *row.seen) {
    for (int64_t t = 0; t < shape.dv; ++t) {
      row.o[t] += row.weights[j] * row.v[j * shape.dv + t];
    }
  }
}

// What a row without a key has instead of an output.
inline void plain_empty(const Shape& shape, const PlainRow& row) {
  std::fill(row.o, row.o + shape.dv, std::numeric_limits<double>::quiet_NaN());
  *row.lse = -std::numeric_limits<double>::infinity();
}

template <class Seams>
OracleOutput plain_forward_with(const Problem& problem) {
  const Shape& shape = problem.shape;
  OracleOutput out;
  out.o.resize(shape.o_elements());
  out.lse.resize(shape.lse_elements());
  out.weights.assign(shape.weights_elements(), 0.0);
  out.visible.resize(shape.lse_elements());
  std::vector<double> scores(shape.Tk);
  std::vector<int64_t> seen;
  seen.reserve(shape.Tk);
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      const int64_t kv = b * shape.Hkv + Seams::kv_head(shape, h);
      for (int64_t i = 0; i < shape.Tq; ++i) {
        const int64_t r = (b * shape.H + h) * shape.Tq + i;
        const PlainRow row{i,
                           problem.q + r * shape.d,
                           problem.k + kv * shape.Tk * shape.d,
                           problem.v + kv * shape.Tk * shape.dv,
                           out.o.data() + r * shape.dv,
                           out.weights.data() + r * shape.Tk,
                           out.lse.data() + r,
                           out.visible.data() + r,
                           &seen,
                           &scores};
        plain_scores<Seams>(problem, row);
        if (seen.empty()) {
          plain_empty(shape, row);
          continue;
        }
        plain_softmax<Seams>(row);
        plain_values(shape, row);
      }
    }
  }
  return out;
}

}  // namespace qkvet

#endif  // QKVET_REFERENCE_PLAIN_H_
