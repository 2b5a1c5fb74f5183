// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "properties/calls/call_pairs.h"
#include "properties/calls/merge_calls.h"

namespace qkvet::properties {
namespace of_order_of_states_changes_nothing {

Case constrain(Case value) { return constrain_merge(std::move(value), 2); }

// The last state of a row becomes the first one, and so on.
void turn_round(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    const int64_t first = place_of_state(s, t, h, 0);
    const int64_t count = counted_keys(value, t);
    for (int64_t n = 0; n < count / 2; ++n) {
      const int64_t a = first + n, b = first + count - 1 - n;
      std::swap(inputs.bias[static_cast<size_t>(a)],
                inputs.bias[static_cast<size_t>(b)]);
      std::swap_ranges(inputs.v.begin() + a * s.dv,
                       inputs.v.begin() + (a + 1) * s.dv,
                       inputs.v.begin() + b * s.dv);
    }
  });
}

Plan plan(const Case& value, const KernelInfo&) {
  return plan_merge_pair(value, turn_round);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "states in order";
  pair.second_name = "states in the other order";
  pair.looks = "where a state stands decides what it is worth";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_order_of_states_changes_nothing

extern constinit const Law order_of_states_changes_nothing{
    "order_of_states_changes_nothing",
    "The order of the states is nothing.",
    "merge(a, b) = merge(b, a)",
    "two states",
    "Sums do not depend on their order.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong alike",
    60,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    of_order_of_states_changes_nothing::constrain,
    of_order_of_states_changes_nothing::plan,
    of_order_of_states_changes_nothing::judge};

}  // namespace qkvet::properties
