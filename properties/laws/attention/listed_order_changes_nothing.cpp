// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/case/key_lists.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_listed_order_changes_nothing {

// The entries that count, the last one first, and turned by some.
void other_order(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < list_heads(value); ++kv)
      for (int64_t i = 0; i < s.Tq; ++i) {
        const auto first =
            inputs.key_indices.begin() + list_begin(value, b, kv, i);
        const int64_t count = list_length(value, inputs, b, i);
        if (count == 0) continue;
        std::reverse(first, first + count);
        // By any but 1, which would put the last one in its place again.
        int64_t turn =
            pick_by_seed(value.seed, std::max<int64_t>(count - 1, 1));
        if (turn > 0) ++turn;
        std::rotate(first, first + turn, first + count);
      }
}

Case constrain(Case value) {
  value.listed.entries = std::max<int64_t>(value.listed.entries, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan = plan_pair(kernel, other_order);
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
    "The order of a list of keys changes nothing, nor does where -1 stands in "
    "it.",
    "forward(key_indices) = forward(key_indices, each list in another order)",
    "lists of keys of two entries at least",
    "A list is a set: softmax and the sum over values are sums over it.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it moves what tiles of entries hold, (d) it needs no oracle",
    342,
    Domain{.allows = kAllowAll | kAllowKeyLists, .about = kAllowKeyLists},
    of_listed_order_changes_nothing::constrain,
    of_listed_order_changes_nothing::plan,
    of_listed_order_changes_nothing::judge};

}  // namespace qkvet::properties
