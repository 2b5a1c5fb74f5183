// SPDX-License-Identifier: Apache-2.0
// Whether a call is taken does not depend on the values of its operands.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/run/other_values.h"

namespace qkvet::properties {
namespace of_refusals {

constexpr Law refusals(Law law) {
  law.formula = "takes(call(x)) = takes(call(y))";
  law.reason =
      "A kernel declares forms of calls: a caller who has checked the form "
      "relies on it.";
  law.rounding = "Nothing is rounded: a call is taken or it is not.";
  law.kept_for = "(c) it reaches what refusals hide, (d) it needs no oracle";
  law.domain.refusals = true;
  law.own_plan = plan_other_values;
  law.own_judge = judge_other_values;
  return law;
}

constexpr Law kRows[] = {
    refusals({.id = "refusals_depend_on_form",
              .sentence = "Whether a call is taken depends on its form alone: "
                          "extents, options, types, layouts, masks and "
                          "lengths, never on the values of its operands.",
              .rank = 562,
              .domain = {.allows = kAllowListsAndFields}}),
    refusals(
        {.id = "backward_refusals_depend_on_form",
         .sentence = "Whether a call of backward() is taken depends on its "
                     "form alone: extents, options, types, layouts, masks and "
                     "lengths, never on the values of its operands.",
         .rank = 105,
         .domain = {.subject = Subject::kBackward, .allows = kAllowGradients}}),
    refusals({.id = "layer_refusals_depend_on_form",
              .sentence = "Whether a call of a layer is taken depends on its "
                          "form alone: extents, options, types, layouts, masks "
                          "and lengths, never on the values of its operands.",
              .rank = 85,
              .domain = {.subject = Subject::kLayer, .allows = kLayerOptions},
              .constrain = constrain_layer}),
};

}  // namespace of_refusals

extern constinit const LawTable refusals_laws{of_refusals::kRows};

}  // namespace qkvet::properties
