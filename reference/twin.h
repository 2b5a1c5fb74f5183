// SPDX-License-Identifier: Apache-2.0
// The twin of the definition: one pass over the keys with a running maximum
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018),
// in double-double. It shares nothing with plain.h: the mask is the number of
// the last key, heads are walked group by group, exp and log are its own.
// Include oracle.h to call it; this header is for the twin and its faults.
#ifndef QKVET_REFERENCE_TWIN_H_
#define QKVET_REFERENCE_TWIN_H_

#include <limits>
#include <vector>

#include "reference/double_double.h"
#include "reference/oracle.h"

namespace qkvet {

struct TwinSeams {
  // The last key that query `i` sees; negative: none. For bottom_right, as
  // many keys lie behind it as queries lie behind the query.
  static int64_t last_key(const Problem& problem, int64_t i) {
    const int64_t last = problem.shape.Tk - 1;
    if (problem.causal == Causal::kNone) return last;
    if (problem.causal == Causal::kTopLeft) return i < last ? i : last;
    return last - (problem.shape.Tq - 1 - i);
  }
  // The query head that is number `member` of those that share `kv_head`.
  static int64_t query_head(const Shape& shape, int64_t kv_head,
                            int64_t member) {
    return kv_head * shape.group() + member;
  }
  static DoubleDouble exponential(DoubleDouble x) { return dd_exp(x); }
  static DoubleDouble logarithm(DoubleDouble x) { return dd_log(x); }
  static DoubleDouble rescale_sum(DoubleDouble sum, DoubleDouble factor) {
    return sum * factor;
  }
  static DoubleDouble rescale_value(DoubleDouble value, DoubleDouble factor) {
    return value * factor;
  }
};

// The state of one row while its keys stream by.
struct TwinState {
  DoubleDouble maximum;
  DoubleDouble sum;
  std::vector<DoubleDouble> value;   // [dv]
  std::vector<DoubleDouble> scores;  // [Tk], for the weights
};

template <class Seams>
void twin_absorb(TwinState& state, DoubleDouble score, bool first,
                 const double* v) {
  DoubleDouble weight = 1.0;
  if (first) {
    state.maximum = score;
    state.sum = 0.0;
    for (DoubleDouble& x : state.value) x = 0.0;
  } else if (state.maximum < score) {
    const DoubleDouble factor = Seams::exponential(state.maximum - score);
    state.maximum = score;
    state.sum = Seams::rescale_sum(state.sum, factor);
    for (DoubleDouble& x : state.value) x = Seams::rescale_value(x, factor);
  } else {
    weight = Seams::exponential(score - state.maximum);
  }
  state.sum = state.sum + weight;
  for (size_t t = 0; t < state.value.size(); ++t) {
    state.value[t] = state.value[t] + weight * DoubleDouble(v[t]);
  }
}

inline DoubleDouble twin_score(const Problem& problem, const double* q,
                               const double* k) {
  DoubleDouble dot = 0.0;
  for (int64_t c = 0; c < problem.shape.d; ++c) {
    dot = dot + two_product(q[c], k[c]);
  }
  return dot * DoubleDouble(problem.scale);
}

// Row `row` of [B,H,Tq], query `i` of its head, with the keys of kv [B,Hkv].
template <class Seams>
void twin_row(const Problem& problem, int64_t row, int64_t i, int64_t kv,
              TwinState& state, OracleOutput& out) {
  const Shape& shape = problem.shape;
  const int64_t last = Seams::last_key(problem, i);
  const double* q = problem.q + row * shape.d;
  const double* k = problem.k + kv * shape.Tk * shape.d;
  const double* v = problem.v + kv * shape.Tk * shape.dv;
  double* o = out.o.data() + row * shape.dv;
  out.visible[row] = last < 0 ? 0 : last + 1;
  if (last < 0) {
    for (int64_t t = 0; t < shape.dv; ++t) {
      o[t] = std::numeric_limits<double>::quiet_NaN();
    }
    out.lse[row] = -std::numeric_limits<double>::infinity();
    return;
  }
  for (int64_t j = 0; j <= last; ++j) {
    state.scores[j] = twin_score(problem, q, k + j * shape.d);
    twin_absorb<Seams>(state, state.scores[j], /*first=*/j == 0,
                       v + j * shape.dv);
  }
  for (int64_t t = 0; t < shape.dv; ++t) o[t] = (state.value[t] / state.sum).hi;
  out.lse[row] = (state.maximum + Seams::logarithm(state.sum)).hi;
  for (int64_t j = 0; j <= last; ++j) {
    const DoubleDouble w = Seams::exponential(state.scores[j] - state.maximum);
    out.weights[row * shape.Tk + j] = (w / state.sum).hi;
  }
}

template <class Seams>
OracleOutput twin_forward_with(const Problem& problem) {
  const Shape& shape = problem.shape;
  OracleOutput out;
  out.o.resize(shape.o_elements());
  out.lse.resize(shape.lse_elements());
  out.weights.assign(shape.weights_elements(), 0.0);
  out.visible.resize(shape.lse_elements());
  TwinState state;
  state.value.resize(shape.dv);
  state.scores.resize(shape.Tk);
  for (int64_t kv = 0; kv < shape.B * shape.Hkv; ++kv) {
    const int64_t b = kv / shape.Hkv;
    for (int64_t member = 0; member < shape.group(); ++member) {
      const int64_t h = Seams::query_head(shape, kv % shape.Hkv, member);
      for (int64_t i = 0; i < shape.Tq; ++i) {
        const int64_t row = (b * shape.H + h) * shape.Tq + i;
        twin_row<Seams>(problem, row, i, kv, state, out);
      }
    }
  }
  return out;
}

}  // namespace qkvet

#endif  // QKVET_REFERENCE_TWIN_H_
