// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"
#include "properties/checking/list_cases.h"

namespace qkvet::properties {
namespace of_full_lists_equal_dense {

Case constrain(Case value) { return with_room_for_all_keys(std::move(value)); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.listed = {};
  Plan plan = plan_two_forms(kernel, variant, no_lists);
  plan.calls[0].edit = lists_of_all_keys;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "with all keys listed";
  pair.second_name = "without lists";
  pair.looks =
      "a listed key is lost, or one that is not there is counted: where there "
      "are more entries than keys, these are -1";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_full_lists_equal_dense

extern constinit const Law full_lists_equal_dense{
    "full_lists_equal_dense",
    "Lists of all keys, in any order and followed by -1, equal a call without "
    "lists.",
    "forward(key_indices = all keys) = forward()",
    "lists of keys, of as many entries as there are keys or more",
    "Each key is in the list once, and -1 is no key.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets the sparse path of a kernel against its dense one, (d) it "
    "needs no oracle",
    344,
    Domain{.free_data = false,
           .allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
           .about = QKVET_OPTION_KEY_LISTS},
    of_full_lists_equal_dense::constrain,
    of_full_lists_equal_dense::plan,
    of_full_lists_equal_dense::judge};

}  // namespace qkvet::properties
