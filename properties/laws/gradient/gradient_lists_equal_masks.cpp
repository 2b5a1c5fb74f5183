// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/calls/option_forms.h"
#include "properties/checking/list_cases.h"

namespace qkvet::properties {
namespace of_gradient_lists_equal_masks {

Case constrain(Case value) { return with_lists(std::move(value), 1); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = with_own_mask(value);
  variant.listed = {};
  Plan plan = plan_two_gradients(variant, lists_as_mask);
  if (!kernel.has_option(QKVET_OPTION_MASK))
    plan.unsupported = "a mask is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "lists of keys";
  pair.second_name = "a mask of the same pairs";
  pair.looks =
      "what a row adds goes to other keys than its list names, or to one of "
      "them more than once";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_gradient_lists_equal_masks

extern constinit const Law gradient_lists_equal_masks{
    "gradient_lists_equal_masks",
    "Lists of keys have the gradient of a mask of the same pairs.",
    "backward(key_indices) = backward(mask), mask[i,j] = j in key_indices[i]",
    "lists of keys; the kernel takes a mask as well",
    "The loss is the same function of q, k, v, bias and sinks.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    56,
    Domain{.subject = Subject::kBackward,
           .allows = kAllowGradients,
           .about = QKVET_OPTION_KEY_LISTS},
    of_gradient_lists_equal_masks::constrain,
    of_gradient_lists_equal_masks::plan,
    of_gradient_lists_equal_masks::judge};

}  // namespace qkvet::properties
