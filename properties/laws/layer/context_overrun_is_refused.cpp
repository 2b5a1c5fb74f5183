// SPDX-License-Identifier: Apache-2.0
// A text that is one token longer than the mask buffer: its last row and column
// are outside of the buffer. The refusal must state how long the text is and
// how long it may be.
#include <cctype>
#include <string_view>

#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_context_overrun_is_refused {

Case constrain(Case value) {
  value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  value.context = std::max<int64_t>(value.context, 1);
  return constrain_layer(std::move(value));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if ((kernel.layer_options & QKVET_LAYER_MASK_BUFFER) == 0) {
    plan.unsupported = "the layer takes no mask buffer";
    return plan;
  }
  PlannedCall call = layer_call(kernel);
  call.variant = value;
  call.variant->context = value.shape.Tq - 1;
  call.expects_refusal = true;
  plan.calls.push_back(call);
  return plan;
}

// Not as a part of a longer number.
bool names(std::string_view text, int64_t number) {
  const std::string wanted = std::to_string(number);
  const auto is_digit = [&](size_t at) {
    return at < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t at = text.find(wanted); at != text.npos;
       at = text.find(wanted, at + 1))
    if ((at == 0 || !is_digit(at - 1)) && !is_digit(at + wanted.size()))
      return true;
  return false;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  ++judgement.compared;
  const CallOutcome& outcome = *input.calls[0].outcome;
  const int64_t T = input.value.shape.Tq, C = T - 1;
  const bool refused = outcome.status != CallStatus::kDone;
  if (refused && outcome.gave_reason && names(outcome.text, T) &&
      names(outcome.text, C))
    return judgement;
  Finding finding;
  finding.where = "T = " + std::to_string(T) + " with a mask buffer of " +
                  std::to_string(C) + " tokens";
  finding.expected = "refused with a reason that names both numbers";
  finding.actual = !refused              ? "accepted"
                   : outcome.gave_reason ? outcome.text
                                         : "refused without a reason";
  add_failure(judgement, std::move(finding));
  return judgement;
}

}  // namespace of_context_overrun_is_refused

extern constinit const Law context_overrun_is_refused{
    "context_overrun_is_refused",
    "A text that is longer than the mask buffer is refused, and the reason "
    "names both lengths.",
    "T > C: error",
    "a mask buffer, and at least two tokens",
    "The buffer has no entries for tokens beyond it.",
    "Nothing is computed.",
    "(c) it reaches error paths, which no legal call enters",
    70,
    Domain{.subject = Subject::kLayer, .free_data = false},
    of_context_overrun_is_refused::constrain,
    of_context_overrun_is_refused::plan,
    of_context_overrun_is_refused::judge};

}  // namespace qkvet::properties
