// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/checking/list_cases.h"

namespace qkvet::properties {
namespace of_listed_order_changes_no_gradient {

Case constrain(Case value) { return with_lists(std::move(value), 2); }

Plan plan(const Case& value, const KernelInfo&) {
  return plan_two_gradients(value, lists_in_other_order);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "the lists as they were";
  pair.second_name = "the same keys in another order";
  pair.looks =
      "where a key stands in a list decides what it gets, or which key gets it";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_listed_order_changes_no_gradient

extern constinit const Law listed_order_changes_no_gradient{
    "listed_order_changes_no_gradient",
    "The order of a list of keys changes no gradient, nor do the places of -1 "
    "in it.",
    "backward(key_indices) = backward(key_indices, each list in another order)",
    "lists of keys of two entries at least",
    "A list is a set, and the loss a function of the set.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it moves what tiles of entries hold and which of them meet at a key, "
    "(d) it needs no oracle",
    52,
    Domain{.subject = Subject::kBackward,
           .allows = kAllowGradients,
           .about = QKVET_OPTION_KEY_LISTS},
    of_listed_order_changes_no_gradient::constrain,
    of_listed_order_changes_no_gradient::plan,
    of_listed_order_changes_no_gradient::judge};

}  // namespace qkvet::properties
