// SPDX-License-Identifier: Apache-2.0
// The same calls one by one and at once: the case, the case with other data,
// and a larger one. The executor makes them at once several times
// (core/door/door.h).
#include "properties/calls/call_pairs.h"
#include "properties/calls/other_data.h"
#include "properties/calls/other_shape.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_calls_at_once_change_nothing {

void all_other_data(const Case& value, int64_t, Inputs& inputs) {
  put_other_data(
      value, [](int64_t, int64_t) { return true; }, inputs);
}

Case fit(Case value) { return value; }

std::string undeclared(const KernelInfo& kernel) {
  if (!kernel.has_flag(QKVET_FLAG_REENTRANT))
    return "not declared: calls from several threads at once (reentrant)";
  if (kernel.device() != QKVET_DEVICE_CPU)
    return "calls to a device are made one by one";
  return nondeterministic_reason(kernel);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_bitwise_pair(kernel, all_other_data);
  plan.unsupported = undeclared(kernel);
  const auto others = calls_of_other_shapes(value, kernel, Operation::kForward);
  if (!others.empty()) {
    plan.calls.push_back(others[0]);
    plan.calls.back().want_lse = plan.calls[0].want_lse;
  }
  const size_t alone = plan.calls.size();
  for (size_t n = 0; n < alone; ++n) {
    plan.calls[n].want_weights = wants_weights(kernel);
    PlannedCall at_once = plan.calls[n];
    at_once.at_once = true;
    plan.calls.push_back(std::move(at_once));
  }
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
  const Visibility seen(*larger.planned->variant, *larger.inputs);
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
    Aim{.admits = kAdmitRope | kAdmitPairs | kAdmitScores | kAdmitLayout |
                  kAdmitServed},
    of_calls_at_once_change_nothing::fit,
    of_calls_at_once_change_nothing::plan,
    of_calls_at_once_change_nothing::judge};

}  // namespace qkvet::properties
