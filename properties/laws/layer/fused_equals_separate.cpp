// SPDX-License-Identifier: Apache-2.0
// One matrix for q, k and v, or three: the columns are the same. A matrix cut
// out of a fused one at the wrong place is another projection.
#include "properties/calls/call_pairs.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_stages.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_fused_equals_separate {

Case constrain(Case value) {
  if (value.fused == FusedOrder::kNone) value.fused = FusedOrder::kQkv;
  return constrain_layer(std::move(value));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  uint64_t orders = 0;
  for (int order = 1; order < kFusedOrderCount; ++order)
    orders |= fused_option(static_cast<FusedOrder>(order));
  if ((kernel.layer_options & orders) == 0) {
    plan.unsupported = "the layer takes no fused projections";
    return plan;
  }
  plan.calls = {layer_call(kernel), layer_call(kernel)};
  plan.calls[1].variant = value;
  plan.calls[1].variant->fused = FusedOrder::kNone;
  return plan;
}

// `wanted`: of either call; null: bit for bit.
void compare(const JudgeInput& input, TensorName tensor,
             const TensorTruth* wanted, Judgement& judgement) {
  CallOutput fused = output_of(input, input.calls[0], tensor);
  CallOutput separate = output_of(input, input.calls[1], tensor);
  if (wanted != nullptr) fused.truth = separate.truth = *wanted;
  for (size_t n = 0; n < fused.values.size(); ++n) {
    auto finding = wanted == nullptr
                       ? compare_exactly(fused.values[n], separate.values[n],
                                         fused.dtype, judgement)
                       : compare_two_ways(fused, n, "in one matrix", separate,
                                          n, "in three", {}, judgement);
    if (!finding) continue;
    finding->where = fused.grid.name(n);
    finding->looks = "w_qkv is cut at the wrong columns";
    add_failure(judgement, std::move(*finding));
    return;
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  if (claims_same_bits(input.kernel, QKVET_FLAG_LAYOUT_INVARIANT)) {
    for (const TensorName tensor : kStages)
      compare(input, tensor, nullptr, judgement);
    compare(input, TensorName::kY, nullptr, judgement);
  } else if (returns_stages(input.kernel)) {
    size_t n = 0;
    for (const TensorName tensor : kStages) {
      const ProjectedStage wanted = stage_of(input, n++);
      const TensorTruth truth = {&wanted.truth, &wanted.bound, &wanted.reach};
      compare(input, tensor, &truth, judgement);
    }
  } else {
    const Dtype stage = stage_dtype(input);
    const LayerProblem problem =
        layer_problem(input.value, *input.calls[0].inputs);
    const LayerOutput oracle = plain_layer(problem);
    const LayerBound bound = layer_bound(
        problem, oracle, for_storage(input.model, stage, input.value.o_dtype),
        stage);
    const TensorTruth truth = {&oracle.y, &bound.y, &bound.reach};
    compare(input, TensorName::kY, &truth, judgement);
  }
  return judgement;
}

}  // namespace of_fused_equals_separate

extern constinit const Law fused_equals_separate{
    "fused_equals_separate",
    "W_Q, W_K and W_V side by side in one matrix give what they give apart.",
    "layer(w_qkv, order) = layer(w_q, w_k, w_v)",
    "fused projections; with stages these are compared",
    "A column of the fused matrix is a column of one of the three.",
    "Bit for bit where the kernel declares that the layout changes nothing; "
    "else each side is within its own bound of the same number.",
    "(c) it sets one path of a kernel against another",
    60,
    Domain{.subject = Subject::kLayer, .allows = kLayerOptions},
    of_fused_equals_separate::constrain,
    of_fused_equals_separate::plan,
    of_fused_equals_separate::judge};

}  // namespace qkvet::properties
