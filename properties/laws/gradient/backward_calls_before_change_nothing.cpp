// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/calls/other_calls.h"

namespace qkvet::properties {
namespace of_backward_calls_before_change_nothing {

Case constrain(Case value) { return value; }

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_calls_before(backward_call(/*truth=*/false), value, kernel);
}

Judgement judge(const JudgeInput& input) {
  return judge_calls_before(
      input, {[&](size_t second, const char* name, Judgement& judgement) {
                CallPair pair;
                pair.second = second;
                pair.first_name = "before";
                pair.second_name = name;
                compare_bit_for_bit(input, pair, judgement);
              },
              [&](size_t call, Judgement& judgement) {
                compare_with_truth(input, input.calls[call], judgement);
              }});
}

}  // namespace of_backward_calls_before_change_nothing

extern constinit const Law backward_calls_before_change_nothing{
    "backward_calls_before_change_nothing",
    "Gradients are those of their own call whatever calls of backward() came "
    "before: other data, another layout, options that come and go or have "
    "other values, other shapes.",
    "backward(x | y) = backward(x)",
    "a call of backward() that differs from the case",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits; of a kernel "
    "that is not deterministic each call is within its own bound.",
    "(c) it reaches what a kernel keeps between calls, by extents, layout, "
    "option or address",
    62,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    of_backward_calls_before_change_nothing::constrain,
    of_backward_calls_before_change_nothing::plan,
    of_backward_calls_before_change_nothing::judge};

}  // namespace qkvet::properties
