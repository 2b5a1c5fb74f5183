// SPDX-License-Identifier: Apache-2.0
// The definition of the gradient of a layer: every projection y = x W + b gives
// dx = dy W^T, dW = x^T dy and db = the sum of the rows of dy.
#include <utility>

#include "reference/layer/layer_gradient_stages.h"
#include "reference/layer/plain_layer.h"

namespace qkvet::reference {
namespace {

int64_t token_count(const Shape& shape) { return shape.B * shape.Tq; }

// x^T dy, of rows x [n,in] and dy [n,out].
std::vector<double> weight_gradient(const std::vector<double>& x,
                                    const std::vector<double>& dy, int64_t n) {
  const int64_t in = static_cast<int64_t>(x.size()) / n;
  const int64_t out = static_cast<int64_t>(dy.size()) / n;
  const std::vector<double> columns = transposed(x, n, in);
  return plain_linear({in, n, out, columns.data(), dy.data(), nullptr});
}

std::vector<double> bias_gradient(const std::vector<double>& dy, int64_t n) {
  return weight_gradient(std::vector<double>(n, 1.0), dy, n);
}

std::vector<double> turn_back(const LayerProblem& problem, Projection which,
                              const std::vector<double>& gradient) {
  if (problem.rotation.style == RopeStyle::kNone) return gradient;
  const HeadLayout layout = head_layout(problem.shape, which);
  return plain_rotate<PlainRopeHooks>(
      problem.rotation,
      {layout.B, layout.heads, layout.T, layout.width, gradient.data(),
       problem.rotation.q_positions},
      TurnWay::kBack);
}

}  // namespace

std::vector<double> transposed(const std::vector<double>& x, int64_t rows,
                               int64_t columns) {
  std::vector<double> out(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      out[c * rows + r] = x[r * columns + c];
    }
  }
  return out;
}

std::vector<double> rows_of(const Shape& shape, Projection which,
                            const std::vector<double>& heads) {
  return plain_merge<PlainLayerHooks>(head_layout(shape, which), heads);
}

LinearProblem d_o_stage(const LayerGradientProblem& problem,
                        std::vector<double>& w) {
  const Shape& s = problem.forward.shape;
  const int64_t width = s.H * s.dv;
  const double* w_o = problem.forward.w_o;
  w = transposed({w_o, w_o + width * s.D}, width, s.D);
  return {token_count(s), s.D, width, problem.d_y, w.data(), nullptr};
}

std::vector<double> side_by_side(const LayerProblem& problem,
                                 const std::vector<double>& d_q,
                                 const std::vector<double>& d_k,
                                 const std::vector<double>& d_v) {
  const Shape& s = problem.shape;
  std::vector<double> out;
  const std::pair<std::vector<double>, int64_t> parts[] = {
      {rows_of(s, Projection::kQ, d_q), s.H * s.d},
      {rows_of(s, Projection::kK, d_k), s.Hkv * s.d},
      {rows_of(s, Projection::kV, d_v), s.Hkv * s.dv}};
  for (int64_t token = 0; token < token_count(s); ++token) {
    for (const auto& [rows, width] : parts) {
      const auto first = rows.begin() + token * width;
      out.insert(out.end(), first, first + width);
    }
  }
  return out;
}

InputStage d_x_stage(const LayerProblem& problem,
                     const std::vector<double>& d_q,
                     const std::vector<double>& d_k,
                     const std::vector<double>& d_v) {
  const Shape& s = problem.shape;
  InputStage stage;
  stage.x = side_by_side(problem, d_q, d_k, d_v);
  const std::pair<const double*, int64_t> parts[] = {
      {problem.w_q, s.H * s.d},
      {problem.w_k, s.Hkv * s.d},
      {problem.w_v, s.Hkv * s.dv}};
  int64_t width = 0;
  for (const auto& [w, out] : parts) {
    const std::vector<double> rows = transposed({w, w + s.D * out}, s.D, out);
    stage.w.insert(stage.w.end(), rows.begin(), rows.end());
    width += out;
  }
  stage.problem = {token_count(s), width,          s.D,
                   stage.x.data(), stage.w.data(), nullptr};
  return stage;
}

LayerGradientStages layer_gradient_stages(const LayerGradientProblem& problem,
                                          const LayerOutput& forward) {
  const LayerProblem& layer = problem.forward;
  LayerGradientStages stages;
  std::vector<double> w;
  stages.d_o = split_heads(layer.shape, Projection::kO,
                           plain_linear(d_o_stage(problem, w)));
  GradientProblem attention;
  attention.forward = attention_stage(layer, forward.q.data(), forward.k.data(),
                                      forward.v.data());
  attention.d_o = stages.d_o.data();
  stages.attention = plain_backward(attention);
  stages.d_q = turn_back(layer, Projection::kQ, stages.attention.q);
  stages.d_k = turn_back(layer, Projection::kK, stages.attention.k);
  return stages;
}

LayerGradientOutput plain_layer_backward(const LayerGradientProblem& problem) {
  const LayerProblem& layer = problem.forward;
  const Shape& s = layer.shape;
  const int64_t n = token_count(s);
  const LayerOutput forward = plain_layer(layer);
  const LayerGradientStages stages = layer_gradient_stages(problem, forward);
  const std::vector<double> x(layer.x, layer.x + n * s.D);
  const std::vector<double> d_y(problem.d_y, problem.d_y + n * s.D);
  const std::vector<double> d_q = rows_of(s, Projection::kQ, stages.d_q);
  const std::vector<double> d_k = rows_of(s, Projection::kK, stages.d_k);
  const std::vector<double> d_v =
      rows_of(s, Projection::kV, stages.attention.v);
  LayerGradientOutput out;
  out.x = plain_linear(
      d_x_stage(layer, stages.d_q, stages.d_k, stages.attention.v).problem);
  out.w_q = weight_gradient(x, d_q, n);
  out.w_k = weight_gradient(x, d_k, n);
  out.w_v = weight_gradient(x, d_v, n);
  out.w_o = weight_gradient(merge_heads(s, forward.attended.o), d_y, n);
  out.b_q = bias_gradient(d_q, n);
  out.b_k = bias_gradient(d_k, n);
  out.b_v = bias_gradient(d_v, n);
  out.b_o = bias_gradient(d_y, n);
  return out;
}

}  // namespace qkvet::reference
