// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_calls.h"

#include <algorithm>

#include "properties/judging/compare.h"

namespace qkvet::properties {

bool returns_stages(const KernelInfo& kernel) {
  return (kernel.layer_options & QKVET_LAYER_STAGES) != 0;
}

bool returns_weights(const KernelInfo& kernel) {
  return (kernel.layer_options & QKVET_LAYER_WEIGHTS) != 0;
}

PlannedCall layer_call(const KernelInfo& kernel) {
  PlannedCall call;
  call.operation = Operation::kLayer;
  call.want_stages = returns_stages(kernel);
  return call;
}

const char* layer_mistake_text(Mistake mistake) {
  switch (mistake) {
    case Mistake::kHeads:
      return "one head more than the columns of w_q have";
    case Mistake::kInputRows:
      return "w_q with D + 1 rows";
    case Mistake::kKeyWidth:
      return "w_k with one column too many";
    case Mistake::kOutputRows:
      return "w_o with one row too many";
    case Mistake::kBiasExtent:
      return "b_q with one element too many";
    case Mistake::kFusedWidth:
      return "w_qkv with one column too many";
    default:
      return "";
  }
}

LayerProblem layer_problem(const Case& value, const Inputs& inputs) {
  const auto data = [&](TensorName name) {
    const std::vector<double>& values = inputs.values(name);
    return values.empty() ? nullptr : values.data();
  };
  LayerProblem problem;
  problem.shape = value.shape;
  problem.causal = value.causal;
  problem.scale_given = value.scale.has_value();
  problem.scale = scale_of(value);
  problem.x = data(TensorName::kX);
  problem.w_q = data(TensorName::kWq);
  problem.w_k = data(TensorName::kWk);
  problem.w_v = data(TensorName::kWv);
  problem.w_o = data(TensorName::kWo);
  problem.b_q = data(TensorName::kBq);
  problem.b_k = data(TensorName::kBk);
  problem.b_v = data(TensorName::kBv);
  problem.b_o = data(TensorName::kBo);
  if (value.rope.style != RopeStyle::kNone)
    problem.rotation = {value.rope.style, inputs.rope_cos.data(),
                        inputs.rope_sin.data(), inputs.q_positions.data(),
                        nullptr};
  return problem;
}

Dtype stage_dtype(const JudgeInput& input) {
  return input.kernel.stage_dtype(input.value.q_dtype);
}

std::string StageLayout::name(const char* tensor, int64_t n) const {
  return std::string(tensor) + "[b=" + std::to_string(n / width / T / heads) +
         ",h=" + std::to_string(n / width / T % heads) +
         ",t=" + std::to_string(n / width % T) +
         ",c=" + std::to_string(n % width) + "]";
}

StageLayout q_layout(const Shape& s) { return {s.B, s.H, s.Tq, s.d}; }
StageLayout k_layout(const Shape& s) { return {s.B, s.Hkv, s.Tq, s.d}; }
StageLayout v_layout(const Shape& s) { return {s.B, s.Hkv, s.Tq, s.dv}; }
StageLayout attended_layout(const Shape& s) { return {s.B, s.H, s.Tq, s.dv}; }

std::vector<Stage> read_stages(const JudgeInput& input, const CallView& call) {
  const Shape& s = input.value.shape;
  const Dtype dtype = stage_dtype(input);
  return {{"q", q_layout(s), as_doubles(call.outcome->stage_q, dtype)},
          {"k", k_layout(s), as_doubles(call.outcome->stage_k, dtype)},
          {"v", v_layout(s), as_doubles(call.outcome->stage_v, dtype)}};
}

void compare_y_exactly(const JudgeInput& input, const CallView& call,
                       const std::function<double(int64_t, int64_t)>& expected,
                       Judgement& judgement) {
  const Shape& s = input.value.shape;
  const std::vector<double> y =
      as_doubles(call.outcome->y, input.value.o_dtype);
  for (int64_t n = 0; n < static_cast<int64_t>(y.size()); ++n) {
    const int64_t row = n / s.D, column = n % s.D;
    auto finding =
        compare_exactly(y[static_cast<size_t>(n)], expected(row, column),
                        input.value.o_dtype, judgement);
    if (!finding) continue;
    finding->where = element_name(TensorName::kY, s, n);
    add_failure(judgement, std::move(*finding));
    return;
  }
}

void compare_stage_exactly(
    const JudgeInput& input, const Stage& stage,
    const std::function<double(int64_t, int64_t)>& expected,
    Judgement& judgement) {
  for (int64_t n = 0; n < stage.layout.elements(); ++n) {
    auto finding =
        compare_exactly(stage.values[static_cast<size_t>(n)],
                        expected(stage.layout.row(n), stage.layout.column(n)),
                        stage_dtype(input), judgement);
    if (!finding) continue;
    finding->where = stage.layout.name(stage.name, n);
    add_failure(judgement, std::move(*finding));
    return;
  }
}

Case constrain_layer(Case value) {
  value.shape.Tk = value.shape.Tq;
  value.kv_dtype = value.o_dtype = value.q_dtype;
  if (value.unbatched) value.shape.B = 1;
  if (value.causal == Causal::kTopLeft) value.causal = Causal::kBottomRight;
  constexpr uint8_t kProjected = kBiasQ | kBiasK | kBiasV;
  if (value.fused != FusedOrder::kNone && (value.biases & kProjected) != 0)
    value.biases |= kProjected;  // one b_qkv, or none
  if (value.context > 0) {
    value.causal = Causal::kBottomRight;
    value.context = std::max(value.context, value.shape.Tq);
  }
  if (value.biases == 0) value.bias = {};
  return value;
}

Case constrain_without_biases(Case value) {
  value.biases = 0;
  return constrain_layer(std::move(value));
}

Case fit_own_data(Case value) {
  value.x = value.w = {};
  return constrain_without_biases(std::move(value));
}

}  // namespace qkvet::properties
