// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_empty_states_change_nothing {

Case constrain(Case value) { return constrain_merge(std::move(value), 2); }

// All states of a row but one are emptied; their o stays.
void leave_one(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    for (int64_t n = 0; n < s.Tk; ++n)
      if (n != picked_state(value, t, h))
        inputs.bias[static_cast<size_t>(place_of_state(s, t, h, n))] =
            kEmptyLse;
  });
}

Plan plan(const Case&, const KernelInfo&) { return plan_merge_edit(leave_one); }

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_states(input, picked_state, /*lse_offset=*/0, judgement);
  return judgement;
}

}  // namespace of_empty_states_change_nothing

extern constinit const Law empty_states_change_nothing{
    "empty_states_change_nothing",
    "An empty state is neutral: beside it the other one is the result.",
    "merge((o, lse), (x, -inf)) = (o, lse)",
    "two states",
    "exp(-inf) is 0, whatever x is.",
    "The bound of a merge, around numbers that are known.",
    "(d) it needs no oracle",
    30,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    of_empty_states_change_nothing::constrain,
    of_empty_states_change_nothing::plan,
    of_empty_states_change_nothing::judge};

}  // namespace qkvet::properties
