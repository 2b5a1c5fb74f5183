// SPDX-License-Identifier: Apache-2.0
// The derivative of a forward pass, by dual numbers: x + x' epsilon with
// epsilon^2 = 0 (Clifford, "Preliminary sketch of biquaternions", 1873), in
// double-double. No formula for a gradient of attention is used; who sees whom
// is asked of the twin.
#include <cstdlib>
#include <limits>
#include <vector>

#include "reference/gradient.h"
#include "reference/twin.h"

namespace qkvet {
namespace {

struct Dual {
  DoubleDouble value;
  DoubleDouble slope;
};

Dual operator+(Dual a, Dual b) {
  return {a.value + b.value, a.slope + b.slope};
}
Dual operator-(Dual a, Dual b) {
  return {a.value - b.value, a.slope - b.slope};
}
Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
Dual operator/(Dual a, Dual b) {
  const DoubleDouble quotient = a.value / b.value;
  return {quotient, (a.slope - quotient * b.slope) / b.value};
}
Dual exponential(Dual x) {
  const DoubleDouble e = dd_exp(x.value);
  return {e, e * x.slope};
}
Dual hyperbolic_tangent(Dual x) {
  const DoubleDouble t = dd_tanh(x.value);
  return {t, (DoubleDouble(1.0) - t * t) * x.slope};
}

Dual constant(double x) { return {x, 0.0}; }

// Element `at` of an input and its direction, which may be null.
Dual moving(const double* x, const double* direction, int64_t at) {
  return {x[at], direction != nullptr ? direction[at] : 0.0};
}

struct Walk {
  const GradientProblem& problem;
  const GradientDirection& direction;
  int64_t b;
  int64_t h;
  int64_t i;
  int64_t row;
  int64_t kv;
};

Dual score(const Walk& at, int64_t j, int64_t centre) {
  const Problem& call = at.problem.forward;
  const Shape& shape = call.shape;
  Dual s = constant(0);
  for (int64_t c = 0; c < shape.d; ++c) {
    s = s + moving(call.q, at.direction.q, at.row * shape.d + c) *
                moving(call.k, at.direction.k,
                       (at.kv * shape.Tk + j) * shape.d + c);
  }
  s = s * constant(call.scale);
  Dual offset = constant(0);
  if (call.slopes != nullptr) {
    offset = constant(call.slopes[at.h]) *
             constant(-static_cast<double>(std::abs(j - centre)));
  }
  if (call.bias != nullptr) {
    offset =
        offset + moving(call.bias, at.direction.bias, at.row * shape.Tk + j);
  }
  if (!(call.softcap > 0)) return s + offset;
  const Dual cap = constant(call.softcap);
  if (call.softcap_after_bias) {
    return cap * hyperbolic_tangent((s + offset) / cap);
  }
  return cap * hyperbolic_tangent(s / cap) + offset;
}

// The derivative of sum_t g_t o_t of one row.
DoubleDouble row_derivative(const Walk& at) {
  const Problem& call = at.problem.forward;
  const Shape& shape = call.shape;
  const TwinSpan span = TwinSeams::span<TwinSeams>(call, at.b, at.i);
  std::vector<int64_t> keys;
  std::vector<Dual> scores;
  DoubleDouble top = -std::numeric_limits<double>::infinity();
  for (int64_t j = span.first; j <= span.last; ++j) {
    if (!TwinSeams::allowed(call, at.row * shape.Tk + j)) continue;
    keys.push_back(j);
    scores.push_back(score(at, j, span.centre));
    if (top < scores.back().value) top = scores.back().value;
  }
  if (keys.empty()) return 0.0;
  Dual sum = constant(0);
  if (call.sink != nullptr) {
    const Dual sink = moving(call.sink, at.direction.sink, at.h);
    if (top < sink.value) top = sink.value;
    sum = exponential(sink - Dual{top, 0.0});
  }
  Dual total = constant(0);
  for (size_t a = 0; a < keys.size(); ++a) {
    const Dual weight = exponential(scores[a] - Dual{top, 0.0});
    sum = sum + weight;
    Dual pulled = constant(0);
    for (int64_t t = 0; t < shape.dv; ++t) {
      pulled = pulled + constant(at.problem.d_o[at.row * shape.dv + t]) *
                            moving(call.v, at.direction.v,
                                   (at.kv * shape.Tk + keys[a]) * shape.dv + t);
    }
    total = total + weight * pulled;
  }
  return (total / sum).slope;
}

}  // namespace

double directional_derivative(const GradientProblem& problem,
                              const GradientDirection& direction) {
  const Shape& shape = problem.forward.shape;
  DoubleDouble derivative = 0.0;
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      const int64_t kv = b * shape.Hkv + h / shape.group();
      for (int64_t i = 0; i < shape.Tq; ++i) {
        const int64_t row = (b * shape.H + h) * shape.Tq + i;
        derivative =
            derivative + row_derivative({problem, direction, b, h, i, row, kv});
      }
    }
  }
  return derivative.hi;
}

}  // namespace qkvet
