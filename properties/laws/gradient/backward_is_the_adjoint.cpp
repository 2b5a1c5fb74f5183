// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/adjoint.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/subject_calls.h"

namespace qkvet::properties {
namespace of_backward_is_the_adjoint {

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor : kGradients)
    compare_with_change(
        input, tensor,
        "the gradient of this row is not the change of the forward pass",
        judgement);
  return judgement;
}

}  // namespace of_backward_is_the_adjoint

extern constinit const Law backward_is_the_adjoint{
    "backward_is_the_adjoint",
    "The gradient is the change of the forward pass: moved along dx, the "
    "output changes as the gradient predicts.",
    "<dO, J dx> = <dx, J^T dO>, dx in one row of q, k, v, bias or in the sinks",
    "none",
    "backward() applies the transpose of the derivative of forward().",
    "The sum of |dx| times the bounds of the elements and their own rounding; "
    "the change is computed by dual numbers in double-double.",
    "(d) it needs no formula for a gradient and kills a mistake in the one "
    "that both references have",
    90,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    as_it_is,
    plan_one_call<nullptr>,
    of_backward_is_the_adjoint::judge};

}  // namespace qkvet::properties
