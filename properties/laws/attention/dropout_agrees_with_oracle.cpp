// SPDX-License-Identifier: Apache-2.0
// The kernel chooses the weights to drop, and returns or shows them; the other
// weights are determined.
#include "properties/calls/call_pairs.h"
#include "properties/calls/dropout_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_dropout_agrees_with_oracle {

Case constrain(Case value) { return with_dropout(std::move(value)); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.not_applicable = unreadable_mask(value, kernel);
  plan.calls =
      mask_and_call(value, kernel, dropout_call(Operation::kForward, kernel));
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const auto kept = kept_by(input, 0, judgement);
  if (!kept) return judgement;
  CallView call = input.calls.back();
  DropoutAnswer answer(input, call, *kept);
  call.truth = &answer.forward();
  compare_with_truth(input, call, TensorName::kO, judgement);
  if (judgement.finding)
    judgement.finding->looks =
        "not what these kept weights give: another factor than 1 / (1 - p), "
        "weights dropped in front of the normalisation, or others dropped than "
        "the mask says";
  if (call.planned->want_lse)
    compare_with_truth(input, call, TensorName::kLse, judgement);
  return judgement;
}

}  // namespace of_dropout_agrees_with_oracle

extern constinit const Law dropout_agrees_with_oracle{
    "dropout_agrees_with_oracle",
    "With the weights that the kernel reports as dropped, o is within what the "
    "declared arithmetic allows, and lse is that without dropout.",
    "RN(y' - B) <= o <= RN(y' + B), y'_i = sum_j m_ij / (1 - p) p_ij v_j",
    "dropout, not beside RoPE, ALiBi and packed batches",
    "The mask that the kernel returns, or that is read off v = I, decides "
    "everything that is random.",
    "B is that of a row of values m v / (1 - p), known to four "
    "roundings "
    "(reference/bounds.md, Dropout).",
    "(d) it kills wrong factors, which no average over seeds need show",
    560,
    Domain{.allows = kAllowBesideDropout, .about = QKVET_OPTION_DROPOUT},
    of_dropout_agrees_with_oracle::constrain,
    of_dropout_agrees_with_oracle::plan,
    of_dropout_agrees_with_oracle::judge};

}  // namespace qkvet::properties
