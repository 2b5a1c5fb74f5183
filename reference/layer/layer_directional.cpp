// SPDX-License-Identifier: Apache-2.0
// The derivative of a layer by dual numbers, its layouts written out once more.
#include "reference/gradient/dual_forward.h"
#include "reference/layer/layer_gradient.h"

namespace qkvet::reference {
namespace {

// x W + b, of rows x [n,in], W [in,out] and b [out] or nothing.
std::vector<Dual> dual_linear(const std::vector<Dual>& x,
                              const std::vector<Dual>& w,
                              const std::vector<Dual>& bias, size_t in) {
  const size_t out = w.size() / in;
  std::vector<Dual> y;
  for (size_t row = 0; row < x.size() / in; ++row) {
    for (size_t j = 0; j < out; ++j) {
      Dual sum = bias.empty() ? dual_constant(0) : bias[j];
      for (size_t i = 0; i < in; ++i) {
        sum = sum + x[row * in + i] * w[i * out + j];
      }
      y.push_back(sum);
    }
  }
  return y;
}

// Row (b, t) holds head h in the columns h width ...; heads are walked first.
std::vector<Dual> dual_heads(const std::vector<Dual>& rows, const Shape& s,
                             int64_t heads, int64_t width) {
  std::vector<Dual> out;
  for (int64_t bh = 0; bh < s.B * heads; ++bh) {
    for (int64_t t = 0; t < s.Tq; ++t) {
      const int64_t token = bh / heads * s.Tq + t;
      const auto from = rows.begin() + (token * heads + bh % heads) * width;
      out.insert(out.end(), from, from + width);
    }
  }
  return out;
}

}  // namespace

double layer_directional_derivative(const LayerGradientProblem& problem,
                                    const LayerDirection& direction) {
  const LayerProblem& layer = problem.forward;
  const Shape& s = layer.shape;
  const int64_t tokens = s.B * s.Tq;
  const std::vector<Dual> x = dual_input(layer.x, direction.x, tokens * s.D);
  const auto project = [&](const double* w, const double* w_way,
                           const double* b, const double* b_way, int64_t heads,
                           int64_t width) {
    const int64_t out = heads * width;
    return dual_heads(dual_linear(x, dual_input(w, w_way, s.D * out),
                                  dual_input(b, b_way, out), s.D),
                      s, heads, width);
  };
  DualCall moving;
  moving.q =
      project(layer.w_q, direction.w_q, layer.b_q, direction.b_q, s.H, s.d);
  moving.k =
      project(layer.w_k, direction.w_k, layer.b_k, direction.b_k, s.Hkv, s.d);
  moving.v =
      project(layer.w_v, direction.w_v, layer.b_v, direction.b_v, s.Hkv, s.dv);
  const int64_t* const positions = layer.rotation.q_positions;
  dual_rotate(layer.rotation, positions, s.H, s.Tq, s.d, moving.q);
  dual_rotate(layer.rotation, positions, s.Hkv, s.Tq, s.d, moving.k);
  Problem call;
  call.shape = s;
  call.causal = layer.causal;
  call.scale = layer.scale;
  const std::vector<Dual> o = dual_forward(call, moving);
  const int64_t width = s.H * s.dv;
  std::vector<Dual> merged(o.size());
  for (int64_t a = 0; a < s.o_elements(); ++a) {
    const int64_t row = a / s.dv;
    const int64_t token = row / (s.H * s.Tq) * s.Tq + row % s.Tq;
    merged[token * width + row / s.Tq % s.H * s.dv + a % s.dv] = o[a];
  }
  const std::vector<Dual> y =
      dual_linear(merged, dual_input(layer.w_o, direction.w_o, width * s.D),
                  dual_input(layer.b_o, direction.b_o, s.D), width);
  DoubleDouble derivative = 0.0;
  for (size_t a = 0; a < y.size(); ++a) {
    derivative = derivative + y[a].slope * DoubleDouble(problem.d_y[a]);
  }
  return derivative.hi;
}

}  // namespace qkvet::reference
