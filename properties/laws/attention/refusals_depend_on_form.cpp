// SPDX-License-Identifier: Apache-2.0
#include "properties/run/other_values.h"

namespace qkvet::properties {
namespace of_refusals_depend_on_form {

Case constrain(Case value) { return value; }

Plan plan(const Case& value, const KernelInfo&) {
  return plan_other_values(value, {});
}

}  // namespace of_refusals_depend_on_form

extern constinit const Law refusals_depend_on_form{
    "refusals_depend_on_form",
    "Whether a call is taken depends on its form alone: extents, "
    "options, types, layouts, masks and lengths, never on the values of its "
    "operands.",
    "takes(call(x)) = takes(call(y))",
    "none",
    "A kernel declares forms of calls: a caller who has checked the form "
    "relies on it.",
    "Nothing is rounded: a call is taken or it is not.",
    "(c) it reaches what refusals hide, (d) it needs no oracle",
    562,
    Domain{.refusals = true,
           .allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields},
    of_refusals_depend_on_form::constrain,
    of_refusals_depend_on_form::plan,
    judge_other_values};

}  // namespace qkvet::properties
