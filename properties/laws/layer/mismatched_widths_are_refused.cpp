// SPDX-License-Identifier: Apache-2.0
// Matrices and biases that do not fit together. Reading on would mix rows or
// leave the tensor; a refusal needs a reason.
#include "properties/calls/layer_calls.h"
#include "properties/judging/law.h"
#include "properties/judging/refusals.h"

namespace qkvet::properties {
namespace of_mismatched_widths_are_refused {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  for (const Mistake mistake :
       {Mistake::kHeads, Mistake::kInputRows, Mistake::kKeyWidth,
        Mistake::kOutputRows, Mistake::kBiasExtent, Mistake::kFusedWidth}) {
    if (mistake == Mistake::kBiasExtent && (value.biases & kBiasQ) == 0)
      continue;
    if (mistake == Mistake::kFusedWidth && value.fused == FusedOrder::kNone)
      continue;
    PlannedCall call = layer_call(kernel);
    call.mistake = mistake;
    call.expects_refusal = true;
    plan.calls.push_back(call);
  }
  return plan;
}

Judgement judge(const JudgeInput& input) {
  return judge_refusals(input, layer_mistake_text);
}

}  // namespace of_mismatched_widths_are_refused

extern constinit const Law mismatched_widths_are_refused{
    "mismatched_widths_are_refused",
    "Widths that do not fit together are refused with a reason.",
    "heads, columns, rows or biases that contradict each other: error",
    "none",
    "The layer is not defined for them.",
    "Nothing is computed.",
    "(c) it reaches error paths, which no legal call enters",
    10,
    Domain{.subject = Subject::kLayer, .free_data = false},
    constrain_layer,
    of_mismatched_widths_are_refused::plan,
    of_mismatched_widths_are_refused::judge};

}  // namespace qkvet::properties
