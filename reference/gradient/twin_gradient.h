// SPDX-License-Identifier: Apache-2.0
// The twin of the gradient, in double-double, on top of twin.h alone. It uses
// neither o nor the formula dS = p (dP - D): one pass over the keys of a row,
// with a running maximum, takes the moments of the softmax,
//
//  L = sum w,  D = (sum w dP) / L,
//  dq = c ((sum w f dP k) / L - D (sum w f k) / L),
//
// the covariance of dP and f k under p (f: the derivative of the cap). Then key
// by key, all rows of its group stream by for dk and dv. Include gradient.h to
// call it; this header is for the twin and its faults.
#ifndef QKVET_REFERENCE_GRADIENT_TWIN_GRADIENT_H_
#define QKVET_REFERENCE_GRADIENT_TWIN_GRADIENT_H_

#include <cmath>
#include <vector>

#include "reference/attention/twin.h"
#include "reference/gradient/gradient.h"

namespace qkvet::reference {

struct TwinGradientHooks : TwinHooks {
  // 1 / cosh^2(x) = 4 e / (1 + e)^2 with e = exp(-2 |x|).
  static DoubleDouble cap_slope(DoubleDouble x) {
    const DoubleDouble twice = times_power_of_two(x.hi < 0 ? x : -x, 1);
    const DoubleDouble e = dd_exp(twice);
    const DoubleDouble sum = DoubleDouble(1.0) + e;
    return times_power_of_two(e, 2) / (sum * sum);
  }
  // Whether the offset of scores passes through the cap.
  static bool offset_in_cap(const Problem& problem) {
    return problem.softcap > 0 && problem.softcap_after_bias;
  }
  static double query_scale(const Problem& problem) { return problem.scale; }
  static DoubleDouble rescale_moment(DoubleDouble sum, DoubleDouble factor) {
    return sum * factor;
  }
  // The term of a row in the gradient of its sink, of share `p`.
  static DoubleDouble sink_term(DoubleDouble p, DoubleDouble delta) {
    return -(p * delta);
  }
  // The contribution of one channel of q to the other by a rotation, for dk.
  static DoubleDouble across_key(DoubleDouble x) { return x; }
  // The end of the rows that a key collects.
  static int64_t rows_end(const Shape& shape) { return shape.Tq; }
};

// The moments of one row; those of [d] are empty outside of the first pass.
struct TwinMoments {
  bool first = true;
  TwinSpan span;
  DoubleDouble maximum;
  DoubleDouble sum;                 // sum w
  DoubleDouble pull;                // sum w dP, later divided by the sum: D
  std::vector<DoubleDouble> drawn;  // [d] sum w f dP k
  std::vector<DoubleDouble> mean;   // [d] sum w f k
};

// The derivative of the cap at key `j`; 1 without one.
template <class Hooks>
DoubleDouble twin_slope(const Problem& problem, const TwinRow& row, int64_t j,
                        const TwinSpan& span) {
  if (!(problem.softcap > 0)) return 1.0;
  DoubleDouble x =
      twin_dot<Hooks>(problem, row, j) * DoubleDouble(problem.scale);
  if (Hooks::offset_in_cap(problem)) {
    const DoubleDouble offset =
        Hooks::offset(problem, row.h, row.row * problem.shape.Tk + j, j, span);
    if (std::isinf(offset.hi)) return 0.0;  // flat, and nothing to divide
    x = x + offset;
  }
  return Hooks::cap_slope(x / DoubleDouble(problem.softcap));
}

inline DoubleDouble twin_pull(const Shape& shape, const double* g,
                              const double* v) {
  DoubleDouble sum = 0.0;
  for (int64_t t = shape.dv - 1; t >= 0; --t) {
    sum = sum + two_product(v[t], g[t]);
  }
  return sum;
}

// The derivative of q k of a pair by q and by k: k and q themselves, or, in the
// terms of twin_turns, y e^(-i(p - r)) and z e^(i(p - r)).
struct TwinSides {
  std::vector<DoubleDouble> by_q;  // [d]
  std::vector<DoubleDouble> by_k;  // [d]
};

template <class Hooks>
TwinSides twin_sides(const Problem& problem, const TwinRow& row, int64_t j) {
  const int64_t d = problem.shape.d;
  const double* z = row.q;
  const double* y = row.k + j * d;
  TwinSides sides = {{y, y + d}, {z, z + d}};
  if (problem.rotation.style == RopeStyle::kNone) return sides;
  twin_turns<Hooks>(
      problem, row, j,
      [&](int64_t c, int64_t c2, DoubleDouble cos, DoubleDouble sin) {
        sides.by_q[c] = cos * y[c] + sin * y[c2];
        sides.by_q[c2] = cos * y[c2] - sin * y[c];
        sides.by_k[c] = cos * z[c] - sin * z[c2];
        sides.by_k[c2] = Hooks::across_key(sin * z[c]) + cos * z[c2];
      });
  return sides;
}

// A term of score `score`, and of no key if k is null.
template <class Hooks>
void twin_absorb_moment(TwinMoments& all, DoubleDouble score, DoubleDouble pull,
                        DoubleDouble slope, const DoubleDouble* k) {
  DoubleDouble weight = 1.0;
  if (all.first) {
    all.first = false;
    all.maximum = score;
  } else if (all.maximum < score) {
    const DoubleDouble factor = Hooks::exponential(all.maximum - score);
    all.maximum = score;
    all.sum = all.sum * factor;
    all.pull = Hooks::rescale_moment(all.pull, factor);
    for (DoubleDouble& x : all.drawn) x = Hooks::rescale_moment(x, factor);
    for (DoubleDouble& x : all.mean) x = Hooks::rescale_moment(x, factor);
  } else {
    weight = Hooks::exponential(score - all.maximum);
  }
  all.sum = all.sum + weight;
  all.pull = all.pull + weight * pull;
  const DoubleDouble part = weight * slope;
  for (size_t c = 0; k != nullptr && c < all.mean.size(); ++c) {
    all.mean[c] = all.mean[c] + part * k[c];
    all.drawn[c] = all.drawn[c] + part * pull * k[c];
  }
}

// The first pass over one row: its moments, dq and its part of dsink.
template <class Hooks>
TwinMoments twin_gradient_row(const GradientProblem& problem,
                              const TwinRow& row, GradientOutput& out,
                              std::vector<DoubleDouble>& sink) {
  const Problem& call = problem.forward;
  const Shape& shape = call.shape;
  TwinMoments all;
  all.span = Hooks::template span<Hooks>(call, row.b, row.i);
  all.drawn.resize(shape.d);
  all.mean.resize(shape.d);
  const double* g = problem.d_o + row.row * shape.dv;
  for (int64_t j = all.span.first; j <= all.span.last; ++j) {
    if (!twin_sees<Hooks>(call, row.row * shape.Tk + j, all.span)) continue;
    twin_absorb_moment<Hooks>(all, twin_score<Hooks>(call, row, j, all.span),
                              twin_pull(shape, g, row.v + j * shape.dv),
                              twin_slope<Hooks>(call, row, j, all.span),
                              twin_sides<Hooks>(call, row, j).by_q.data());
  }
  if (all.first) return {};
  if (call.sink != nullptr) {
    twin_absorb_moment<Hooks>(all, call.sink[row.h], 0.0, 0.0, nullptr);
  }
  all.pull = all.pull / all.sum;
  for (int64_t c = 0; c < shape.d; ++c) {
    const DoubleDouble covariance =
        (all.drawn[c] - all.pull * all.mean[c]) / all.sum;
    out.q[row.row * shape.d + c] =
        (covariance * DoubleDouble(Hooks::query_scale(call))).hi;
  }
  if (call.sink != nullptr) {
    const DoubleDouble share =
        Hooks::exponential(DoubleDouble(call.sink[row.h]) - all.maximum) /
        all.sum;
    sink[row.h] = sink[row.h] + Hooks::sink_term(share, all.pull);
  }
  all.drawn.clear();
  all.mean.clear();
  return all;
}

// One key and what its rows have added so far.
struct TwinKey {
  int64_t j = 0;
  std::vector<DoubleDouble> k;  // [d]
  std::vector<DoubleDouble> v;  // [dv]
};

template <class Hooks>
void twin_gradient_pair(const GradientProblem& problem, const TwinRow& row,
                        const TwinMoments& all, TwinKey& key,
                        GradientOutput& out) {
  const Problem& call = problem.forward;
  const Shape& shape = call.shape;
  const int64_t pair = row.row * shape.Tk + key.j;
  const bool inside = key.j >= all.span.first && key.j <= all.span.last;
  if (all.first || !inside || !twin_sees<Hooks>(call, pair, all.span)) {
    return;
  }
  const DoubleDouble score = twin_score<Hooks>(call, row, key.j, all.span);
  const DoubleDouble p = Hooks::exponential(score - all.maximum) / all.sum;
  const double* g = problem.d_o + row.row * shape.dv;
  const DoubleDouble dS =
      p * twin_pull(shape, g, row.v + key.j * shape.dv) - p * all.pull;
  const DoubleDouble dZ = dS * twin_slope<Hooks>(call, row, key.j, all.span);
  out.bias[pair] = (Hooks::offset_in_cap(call) ? dZ : dS).hi;
  const TwinSides sides = twin_sides<Hooks>(call, row, key.j);
  for (int64_t c = 0; c < shape.d; ++c)
    key.k[c] = key.k[c] + dZ * sides.by_k[c];
  for (int64_t t = 0; t < shape.dv; ++t) key.v[t] = key.v[t] + p * g[t];
}

// All rows and keys of one kv head.
template <class Hooks>
void twin_gradient_head(const GradientProblem& problem, int64_t kv,
                        GradientOutput& out, std::vector<DoubleDouble>& sink) {
  const Problem& call = problem.forward;
  const Shape& shape = call.shape;
  const int64_t b = kv / shape.Hkv;
  const double* k = call.k + kv * shape.Tk * shape.d;
  const double* v = call.v + kv * shape.Tk * shape.dv;
  std::vector<TwinRow> rows;
  std::vector<TwinMoments> moments;
  for (int64_t member = 0; member < shape.group(); ++member) {
    const int64_t h = Hooks::query_head(shape, kv % shape.Hkv, member);
    for (int64_t i = 0; i < shape.Tq; ++i) {
      const int64_t row = (b * shape.H + h) * shape.Tq + i;
      rows.push_back({row, b, h, i, call.q + row * shape.d, k, v});
      moments.push_back(
          twin_gradient_row<Hooks>(problem, rows.back(), out, sink));
    }
  }
  for (int64_t j = 0; j < shape.Tk; ++j) {
    TwinKey key;
    key.j = j;
    key.k.resize(shape.d);
    key.v.resize(shape.dv);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].i >= Hooks::rows_end(shape)) continue;
      twin_gradient_pair<Hooks>(problem, rows[r], moments[r], key, out);
    }
    const int64_t at = kv * shape.Tk + j;
    for (int64_t c = 0; c < shape.d; ++c) {
      out.k[at * shape.d + c] = (key.k[c] * DoubleDouble(call.scale)).hi;
    }
    for (int64_t t = 0; t < shape.dv; ++t) {
      out.v[at * shape.dv + t] = key.v[t].hi;
    }
  }
}

template <class Hooks>
GradientOutput twin_backward_with(const GradientProblem& problem) {
  const Problem& call = problem.forward;
  const Shape& shape = call.shape;
  GradientOutput out;
  out.q.resize(shape.q_elements());
  out.k.resize(shape.k_elements());
  out.v.resize(shape.v_elements());
  out.bias.resize(shape.weights_elements());
  std::vector<DoubleDouble> sink(call.sink != nullptr ? shape.H : 0);
  for (int64_t kv = 0; kv < shape.B * shape.Hkv; ++kv) {
    twin_gradient_head<Hooks>(problem, kv, out, sink);
  }
  for (const DoubleDouble& x : sink) out.sink.push_back(x.hi);
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_GRADIENT_TWIN_GRADIENT_H_
