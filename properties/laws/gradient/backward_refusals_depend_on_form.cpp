// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/run/other_values.h"

namespace qkvet::properties {
namespace of_backward_refusals_depend_on_form {

Case constrain(Case value) { return value; }

Plan plan(const Case& value, const KernelInfo&) {
  return plan_other_values(value, backward_call(/*truth=*/false));
}

}  // namespace of_backward_refusals_depend_on_form

extern constinit const Law backward_refusals_depend_on_form{
    "backward_refusals_depend_on_form",
    "Whether a call of backward() is taken depends on its form alone: extents, "
    "options, types, layouts, masks and lengths, never on the values of its "
    "operands.",
    "takes(call(x)) = takes(call(y))",
    "none",
    "A kernel declares forms of calls: a caller who has checked the form "
    "relies on it.",
    "Nothing is rounded: a call is taken or it is not.",
    "(c) it reaches what refusals hide, (d) it needs no oracle",
    105,
    Domain{.subject = Subject::kBackward,
           .refusals = true,
           .allows = kAllowGradients},
    of_backward_refusals_depend_on_form::constrain,
    of_backward_refusals_depend_on_form::plan,
    judge_other_values};

}  // namespace qkvet::properties
