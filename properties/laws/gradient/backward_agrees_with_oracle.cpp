// SPDX-License-Identifier: Apache-2.0
// The general law about gradients, and the last one: every element within the
// bound of the declared arithmetic. Elements that are exactly zero for every
// kernel (keys that no row sees, rows without a key) have the bound 0.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_backward_agrees_with_oracle {

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_truth(input, input.calls[0], judgement);
  return judgement;
}

}  // namespace of_backward_agrees_with_oracle

extern constinit const Law backward_agrees_with_oracle{
    "backward_agrees_with_oracle",
    "The gradients are within what the declared arithmetic allows, element by "
    "element.",
    "RN(g - B) <= y <= RN(g + B), g = dq, dk, dv, dbias, dsink",
    "none",
    "g is the derivative of the definition, computed in double.",
    "B is derived from the inputs, o and lse as given and the declared "
    "arithmetic (reference/bounds.md).",
    "(c) it reaches every input and every element",
    110,
    Domain{.subject = Subject::kBackward,
           .allows = kAllowGradients | QKVET_OPTION_EMPTY_EXTENTS},
    as_it_is,
    plan_one_call<nullptr>,
    of_backward_agrees_with_oracle::judge};

}  // namespace qkvet::properties
