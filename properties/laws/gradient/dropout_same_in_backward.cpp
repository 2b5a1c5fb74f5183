// SPDX-License-Identifier: Apache-2.0
// The gradient of a call with dropout. The caller cannot compute o before the
// mask is known, so backward() is given the results of the kernel's own
// forward() for the same call (core/door/forward_outputs.h). The other call of
// the plan returns them to the law.
#include "properties/calls/call_pairs.h"
#include "properties/calls/dropout_calls.h"
#include "properties/calls/gradient_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_dropout_same_in_backward {

Case constrain(Case value) { return with_dropout(std::move(value)); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  plan.not_applicable = unreadable_mask(value, kernel);
  plan.calls =
      mask_and_call(value, kernel, dropout_call(Operation::kForward, kernel));
  plan.calls.push_back(dropout_call(Operation::kBackward, kernel));
  return plan;
}

// False where they differ.
bool same_mask(const JudgeInput& input, const std::vector<uint8_t>& forward,
               const std::vector<uint8_t>& backward, Judgement& judgement) {
  const Shape& s = input.value.shape;
  for (size_t n = 0; n < forward.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t i = at / s.Tk % s.Tq, b = at / s.Tk / s.Tq / s.H;
    if (i >= counted_queries(input.value, b)) continue;
    ++judgement.compared;
    if (forward[n] == backward[n]) continue;
    Finding finding;
    finding.where = element_name(TensorName::kDropoutMask, s, at);
    finding.expected = std::to_string(forward[n]) + " (forward)";
    finding.actual = std::to_string(backward[n]) + " (backward)";
    finding.allowed = "the same mask";
    finding.looks = "backward() drops other weights than forward() did";
    add_failure(judgement, std::move(finding));
    return false;
  }
  return true;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const size_t last = input.calls.size() - 1;
  const auto forward = kept_by(input, 0, judgement);
  if (!forward) return judgement;
  if (returns_mask(input.kernel)) {
    const auto backward = kept_by(input, last, judgement);
    if (!backward || !same_mask(input, *forward, *backward, judgement))
      return judgement;
  }
  // The gradient's own inputs have dO, too.
  CallView given = input.calls[last - 1];
  given.inputs = input.calls[last].inputs;
  DropoutAnswer answer(input, given, *forward);
  CallView call = input.calls[last];
  call.truth = &answer.backward();
  compare_with_truth(input, call, judgement);
  return judgement;
}

}  // namespace of_dropout_same_in_backward

extern constinit const Law dropout_same_in_backward{
    "dropout_same_in_backward",
    "backward() drops what forward() dropped, and its gradients are those of "
    "that, within what the declared arithmetic allows.",
    "m(backward) = m(forward); dv = (f p)^T do, dp = f (do v^T), f = m / (1 - "
    "p)",
    "dropout, not beside ALiBi and packed batches; a deterministic kernel",
    "The gradient is that of the function that was computed, mask and all; a "
    "mask that backward() does not return is seen in it alone.",
    "The bound of a row of values f v, and of sums over rows in any "
    "order (reference/bounds.md, Dropout).",
    "(d) it kills masks that are drawn in another order, which forward() does "
    "not show",
    100,
    Domain{.subject = Subject::kBackward,
           .allows = kAllowBesideDropout,
           .about = QKVET_OPTION_DROPOUT},
    of_dropout_same_in_backward::constrain,
    of_dropout_same_in_backward::plan,
    of_dropout_same_in_backward::judge};

}  // namespace qkvet::properties
