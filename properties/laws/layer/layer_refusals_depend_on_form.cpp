// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_calls.h"
#include "properties/run/other_values.h"

namespace qkvet::properties {
namespace of_layer_refusals_depend_on_form {

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_other_values(value, layer_call(kernel));
}

}  // namespace of_layer_refusals_depend_on_form

extern constinit const Law layer_refusals_depend_on_form{
    "layer_refusals_depend_on_form",
    "Whether a call of a layer is taken depends on its form alone: extents, "
    "options, types, layouts, masks and lengths, never on the values of its "
    "operands.",
    "takes(call(x)) = takes(call(y))",
    "none",
    "A kernel declares forms of calls: a caller who has checked the form "
    "relies on it.",
    "Nothing is rounded: a call is taken or it is not.",
    "(c) it reaches what refusals hide, (d) it needs no oracle",
    85,
    Domain{
        .subject = Subject::kLayer, .refusals = true, .allows = kLayerOptions},
    constrain_layer,
    of_layer_refusals_depend_on_form::plan,
    judge_other_values};

}  // namespace qkvet::properties
