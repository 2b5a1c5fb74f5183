// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/checking/list_cases.h"

namespace qkvet::properties {
namespace of_listed_order_changes_nothing {

Case constrain(Case value) { return with_lists(std::move(value), 2); }

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan = plan_pair(kernel, lists_in_other_order);
  for (PlannedCall& call : plan.calls) call.needs_truth = true;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "the lists as they were";
  pair.second_name = "the same keys in another order";
  pair.looks =
      "an entry of a list counts for its place: the last one is lost, or -1 "
      "ends the list";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_listed_order_changes_nothing

extern constinit const Law listed_order_changes_nothing{
    "listed_order_changes_nothing",
    "The order of a list of keys changes nothing, nor do the places of -1 in "
    "it.",
    "forward(key_indices) = forward(key_indices, each list in another order)",
    "lists of keys of two entries at least",
    "A list is a set: softmax and the sum over values are sums over it.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it moves what tiles of entries hold, (d) it needs no oracle",
    342,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
           .about = QKVET_OPTION_KEY_LISTS},
    of_listed_order_changes_nothing::constrain,
    of_listed_order_changes_nothing::plan,
    of_listed_order_changes_nothing::judge};

}  // namespace qkvet::properties
