// SPDX-License-Identifier: Apache-2.0
// The same calls one by one and at once: the case, the case with other data,
// and a larger one. The executor makes them at once several times
// (core/door/door.h).
#include "properties/calls/call_pairs.h"
#include "properties/calls/other_calls.h"
#include "properties/judging/visibility.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_calls_at_once_change_nothing {

Case constrain(Case value) { return value; }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_bitwise_pair(kernel, put_all_other_data);
  plan.unsupported = not_at_once_reason(kernel);
  const auto others = calls_of_other_shapes(value, kernel, Operation::kForward);
  if (!others.empty()) {
    plan.calls.push_back(others[0]);
    plan.calls.back().want_lse = plan.calls[0].want_lse;
  }
  for (PlannedCall& call : plan.calls)
    call.want_weights = wants_weights(kernel);
  add_at_once(plan);
  return plan;
}

void compare(const JudgeInput& input, size_t n, Judgement& judgement) {
  CallPair pair;
  pair.first = n;
  pair.second = input.calls.size() / 2 + n;
  pair.first_name = "alone";
  pair.second_name = "at once with other calls";
  pair.looks = "calls of several threads share memory";
  compare_bit_for_bit(input, pair, judgement,
                      {TensorName::kO, TensorName::kLse, TensorName::kWeights});
}

Judgement judge(const JudgeInput& input) {
  constexpr size_t kLarger = 2;  // which the kernel may have refused
  Judgement judgement;
  compare(input, 0, judgement);
  compare(input, 1, judgement);
  if (input.calls.size() / 2 == kLarger) return judgement;
  const CallView& larger = input.calls[kLarger];
  const Visibility seen(*larger.planned->variant, *larger.inputs,
                        ranges_in_window(input.kernel.dialect));
  const JudgeInput of_larger{
      *larger.planned->variant, input.kernel, input.model, input.calls, &seen,
      input.same_bits};
  compare(of_larger, kLarger, judgement);
  return judgement;
}

}  // namespace of_calls_at_once_change_nothing

extern constinit const Law calls_at_once_change_nothing{
    "calls_at_once_change_nothing",
    "Calls from several threads at once, each with a context of its own, give "
    "what they give one by one, where the kernel declares it.",
    "forward(x) || forward(y) = forward(x), forward(y)",
    "a deterministic kernel on the CPU that declares reentrant",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches what calls share",
    160,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing | QKVET_OPTION_KEY_LISTS |
                     kAllowFields},
    of_calls_at_once_change_nothing::constrain,
    of_calls_at_once_change_nothing::plan,
    of_calls_at_once_change_nothing::judge};

}  // namespace qkvet::properties
