// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/merge_calls.h"

namespace qkvet::properties {
namespace of_layout_of_states_changes_nothing {

Case constrain(Case value) {
  value = constrain_merge(std::move(value), 2);
  if (value.layout == Layout::kBhtd) value.layout = Layout::kBthd;
  return value;
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan = plan_merge_pair(value, nullptr, value.shape.Tk);
  plan.calls[1].variant->layout = Layout::kBhtd;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "in this layout";
  pair.second_name = "contiguous";
  pair.looks = "a stride of lse, of states or of o is not heeded";
  compare_as_claimed(input, pair, QKVET_FLAG_LAYOUT_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_layout_of_states_changes_nothing

extern constinit const Law layout_of_states_changes_nothing{
    "layout_of_states_changes_nothing",
    "The places of states, their lse and the outputs in memory change nothing.",
    "merge in any layout = merge of contiguous tensors",
    "two states; another layout than the contiguous one",
    "A layout is no part of the definition.",
    "The same bits where that is declared (layout_invariant), else each within "
    "its own bound.",
    "(a) it is bitwise where claimed, (d) it needs no oracle",
    90,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    of_layout_of_states_changes_nothing::constrain,
    of_layout_of_states_changes_nothing::plan,
    of_layout_of_states_changes_nothing::judge};

}  // namespace qkvet::properties
