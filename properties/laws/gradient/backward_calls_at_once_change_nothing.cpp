// SPDX-License-Identifier: Apache-2.0
// The same gradients one by one and at once: of the case, and of the case with
// other data (core/door/door_threads.cpp).
#include "properties/calls/gradient_calls.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_backward_calls_at_once_change_nothing {

Case constrain(Case value) { return value; }

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = not_at_once_reason(kernel);
  plan.calls = {backward_call(/*truth=*/false),
                backward_call(/*truth=*/false, put_all_other_data)};
  add_at_once(plan);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 0; n < input.calls.size() / 2; ++n) {
    CallPair pair;
    pair.first = n;
    pair.second = n + input.calls.size() / 2;
    pair.first_name = "alone";
    pair.second_name = "at once with other calls";
    pair.looks = "calls of several threads share memory";
    compare_bit_for_bit(input, pair, judgement);
  }
  return judgement;
}

}  // namespace of_backward_calls_at_once_change_nothing

extern constinit const Law backward_calls_at_once_change_nothing{
    "backward_calls_at_once_change_nothing",
    "Gradients from several threads at once, each with a context of its own, "
    "are what they are one by one, where the kernel declares it.",
    "backward(x) || backward(y) = backward(x), backward(y)",
    "a deterministic kernel on the CPU that declares reentrant",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches what calls share",
    75,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    of_backward_calls_at_once_change_nothing::constrain,
    of_backward_calls_at_once_change_nothing::plan,
    of_backward_calls_at_once_change_nothing::judge};

}  // namespace qkvet::properties
