// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"
#include "properties/checking/list_cases.h"

namespace qkvet::properties {
namespace of_lists_equal_masks {

Case constrain(Case value) { return with_lists(std::move(value), 1); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = with_own_mask(value);
  variant.listed = {};
  Plan plan = plan_two_forms(kernel, variant, lists_as_mask);
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
      "a row sees other keys than its list says, or one of them more than once";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_lists_equal_masks

extern constinit const Law lists_equal_masks{
    "lists_equal_masks",
    "Lists of keys equal a mask of the same pairs: they only determine what a "
    "row sees.",
    "forward(key_indices) = forward(mask), mask[i,j] = j in key_indices[i]",
    "lists of keys; the kernel takes a mask as well",
    "A softmax over the listed keys is one over all keys in which the others "
    "have no weight; causal rule, window, mask and lengths hold beside it.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    348,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
           .about = QKVET_OPTION_KEY_LISTS},
    of_lists_equal_masks::constrain,
    of_lists_equal_masks::plan,
    of_lists_equal_masks::judge};

}  // namespace qkvet::properties
