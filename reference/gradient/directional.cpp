// SPDX-License-Identifier: Apache-2.0
// The derivative of a forward pass by dual numbers, without any formula for a
// gradient of attention; visible keys come from the twin.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "reference/attention/twin.h"
#include "reference/gradient/dual_forward.h"
#include "reference/gradient/gradient.h"

namespace qkvet::reference {
namespace {

Dual exponential(Dual x) {
  const DoubleDouble e = dd_exp(x.value);
  return {e, e * x.slope};
}
Dual hyperbolic_tangent(Dual x) {
  const DoubleDouble t = dd_tanh(x.value);
  return {t, (DoubleDouble(1.0) - t * t) * x.slope};
}

struct Walk {
  const Problem& call;
  const DualCall& moving;
  int64_t b;
  int64_t h;
  int64_t i;
  int64_t row;
  int64_t kv;
};

Dual score(const Walk& at, int64_t j, const TwinSpan& span) {
  const Problem& call = at.call;
  const Shape& shape = call.shape;
  Dual s = dual_constant(0);
  for (int64_t c = 0; c < shape.d; ++c) {
    s = s + at.moving.q[at.row * shape.d + c] *
                at.moving.k[(at.kv * shape.Tk + j) * shape.d + c];
  }
  s = s * dual_constant(call.scale);
  Dual offset = dual_constant(0);
  if (span.slopes != nullptr) {
    offset = dual_constant(span.slopes[at.h]) *
             dual_constant(-static_cast<double>(std::abs(j - span.centre)));
  }
  if (!at.moving.bias.empty()) {
    const Dual bias = at.moving.bias[at.row * shape.Tk + j];
    // The cap is flat there, and an infinity is nothing to compute with.
    if (std::isinf(bias.value.hi))
      return dual_constant(std::copysign(call.softcap, bias.value.hi));
    offset = offset + bias;
  }
  if (!(call.softcap > 0)) return s + offset;
  const Dual cap = dual_constant(call.softcap);
  if (call.softcap_after_bias) {
    return cap * hyperbolic_tangent((s + offset) / cap);
  }
  return cap * hyperbolic_tangent(s / cap) + offset;
}

void forward_row(const Walk& at, Dual* o) {
  const Problem& call = at.call;
  const Shape& shape = call.shape;
  const TwinSpan span = TwinHooks::span<TwinHooks>(call, at.b, at.i);
  std::vector<int64_t> keys;
  std::vector<Dual> scores;
  DoubleDouble top = -std::numeric_limits<double>::infinity();
  for (int64_t j = span.first; j <= span.last; ++j) {
    if (!twin_sees<TwinHooks>(call, at.row * shape.Tk + j, span)) continue;
    keys.push_back(j);
    scores.push_back(score(at, j, span));
    if (top < scores.back().value) top = scores.back().value;
  }
  if (keys.empty()) return;
  Dual sum = dual_constant(0);
  if (!at.moving.sink.empty()) {
    const Dual sink = at.moving.sink[at.h];
    if (top < sink.value) top = sink.value;
    sum = exponential(sink - Dual{top, 0.0});
  }
  for (size_t a = 0; a < keys.size(); ++a) {
    const Dual weight = exponential(scores[a] - Dual{top, 0.0});
    sum = sum + weight;
    const Dual* v = &at.moving.v[(at.kv * shape.Tk + keys[a]) * shape.dv];
    for (int64_t t = 0; t < shape.dv; ++t) o[t] = o[t] + weight * v[t];
  }
  for (int64_t t = 0; t < shape.dv; ++t) o[t] = o[t] / sum;
}

}  // namespace

std::vector<Dual> dual_input(const double* x, const double* direction,
                             int64_t count) {
  std::vector<Dual> out;
  for (int64_t a = 0; x != nullptr && a < count; ++a) {
    out.push_back({x[a], direction != nullptr ? direction[a] : 0.0});
  }
  return out;
}

void dual_rotate(const Rotation& turn, const int64_t* positions, int64_t heads,
                 int64_t rows, int64_t width, std::vector<Dual>& x) {
  if (turn.style == RopeStyle::kNone) return;
  const int64_t pairs = turn.channels / 2;
  const bool half = turn.style == RopeStyle::kHalf;
  for (int64_t row = 0; row * width < static_cast<int64_t>(x.size()); ++row) {
    const int64_t token = row / (heads * rows) * rows + row % rows;
    for (int64_t n = 0; n < pairs; ++n) {
      const int64_t at = positions[token] * pairs + n;
      Dual& re = x[row * width + (half ? n : 2 * n)];
      Dual& im = x[row * width + (half ? n + pairs : 2 * n + 1)];
      const Dual cos = dual_constant(turn.cos[at]);
      const Dual sin = dual_constant(turn.sin[at]);
      const Dual turned = re * cos - im * sin;
      im = re * sin + im * cos;
      re = turned;
    }
  }
}

std::vector<Dual> dual_forward(const Problem& call, const DualCall& moving) {
  const Shape& shape = call.shape;
  std::vector<Dual> o(shape.o_elements(), dual_constant(0));
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      const int64_t kv = b * shape.Hkv + h / shape.group();
      for (int64_t i = 0; i < shape.Tq; ++i) {
        const int64_t row = (b * shape.H + h) * shape.Tq + i;
        forward_row({call, moving, b, h, i, row, kv}, &o[row * shape.dv]);
      }
    }
  }
  return o;
}

double directional_derivative(const GradientProblem& problem,
                              const GradientDirection& direction) {
  const Problem& call = problem.forward;
  const Shape& s = call.shape;
  DualCall moving;
  moving.q = dual_input(call.q, direction.q, s.q_elements());
  moving.k = dual_input(call.k, direction.k, s.k_elements());
  moving.v = dual_input(call.v, direction.v, s.v_elements());
  moving.bias = dual_input(call.bias, direction.bias, s.weights_elements());
  moving.sink = dual_input(call.sink, direction.sink, s.H);
  dual_rotate(call.rotation, call.rotation.q_positions, s.H, s.Tq, s.d,
              moving.q);
  dual_rotate(call.rotation, call.rotation.k_positions, s.Hkv, s.Tk, s.d,
              moving.k);
  const std::vector<Dual> o = dual_forward(call, moving);
  DoubleDouble derivative = 0.0;
  for (int64_t a = 0; a < s.o_elements(); ++a) {
    // d_o of rows that are not counted may hold anything.
    if (o[a].value.hi == 0 && o[a].slope.hi == 0) continue;
    derivative = derivative + o[a].slope * DoubleDouble(problem.d_o[a]);
  }
  return derivative.hi;
}

}  // namespace qkvet::reference
