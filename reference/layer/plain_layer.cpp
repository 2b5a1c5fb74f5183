// SPDX-License-Identifier: Apache-2.0
// The definitions of plain_layer.h with nothing replaced.
#include "reference/layer/plain_layer.h"

namespace qkvet::reference {

LinearProblem projection_stage(const LayerProblem& problem, Projection which,
                               const double* input) {
  const Shape& s = problem.shape;
  const int64_t rows = s.B * s.Tq;
  switch (which) {
    case Projection::kQ:
      return {rows, s.D, s.H * s.d, input, problem.w_q, problem.b_q};
    case Projection::kK:
      return {rows, s.D, s.Hkv * s.d, input, problem.w_k, problem.b_k};
    case Projection::kV:
      return {rows, s.D, s.Hkv * s.dv, input, problem.w_v, problem.b_v};
    case Projection::kO:
      return {rows, s.H * s.dv, s.D, input, problem.w_o, problem.b_o};
  }
  return {};
}

Problem rotation_stage(const LayerProblem& problem, const double* q,
                       const double* k) {
  Problem stage;
  stage.shape = problem.shape;
  stage.q = q;
  stage.k = k;
  stage.rotation = problem.rotation;
  stage.rotation.k_positions = problem.rotation.q_positions;
  return stage;
}

Problem attention_stage(const LayerProblem& problem, const double* q,
                        const double* k, const double* v) {
  Problem stage;
  stage.shape = problem.shape;
  stage.causal = problem.causal;
  stage.scale = problem.scale;
  stage.scale_given = problem.scale_given;
  stage.q = q;
  stage.k = k;
  stage.v = v;
  return stage;
}

std::vector<double> split_heads(const Shape& shape, Projection which,
                                const std::vector<double>& rows) {
  return plain_split<PlainLayerHooks>(head_layout(shape, which), rows);
}

std::vector<double> merge_heads(const Shape& shape,
                                const std::vector<double>& heads) {
  return plain_merge<PlainLayerHooks>(head_layout(shape, Projection::kO),
                                      heads);
}

std::vector<double> plain_linear(const LinearProblem& problem) {
  return plain_linear_with<PlainLayerHooks>(problem);
}

LayerOutput plain_layer(const LayerProblem& problem) {
  return plain_layer_with<PlainLayerHooks>(problem);
}

}  // namespace qkvet::reference
