// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/checking/list_cases.h"

namespace qkvet::properties {
namespace of_gradient_of_full_lists_is_dense {

Case constrain(Case value) { return with_room_for_all_keys(std::move(value)); }

Plan plan(const Case& value, const KernelInfo&) {
  Case variant = value;
  variant.listed = {};
  Plan plan = plan_two_gradients(variant, no_lists);
  plan.calls[0].edit = lists_of_all_keys;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "with all keys listed";
  pair.second_name = "without lists";
  pair.looks =
      "a listed key gets nothing, or one that is not there gets something: "
      "entries behind those of all keys are -1";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_gradient_of_full_lists_is_dense

extern constinit const Law gradient_of_full_lists_is_dense{
    "gradient_of_full_lists_is_dense",
    "Lists of all keys, in any order and followed by -1, have the gradient of "
    "a call without lists.",
    "backward(key_indices = all keys) = backward()",
    "lists of keys, of as many entries as there are keys or more",
    "Each key is in the list once, and -1 is no key.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets the sparse path of a kernel against its dense one, (d) it "
    "needs no oracle",
    54,
    Domain{.subject = Subject::kBackward,
           .free_data = false,
           .allows = kAllowGradients,
           .about = QKVET_OPTION_KEY_LISTS},
    of_gradient_of_full_lists_is_dense::constrain,
    of_gradient_of_full_lists_is_dense::plan,
    of_gradient_of_full_lists_is_dense::judge};

}  // namespace qkvet::properties
