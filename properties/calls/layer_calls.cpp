// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_calls.h"

#include <algorithm>

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

Dtype stage_dtype(const JudgeInput& input) {
  return input.kernel.stage_dtype(input.value.q_dtype);
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
