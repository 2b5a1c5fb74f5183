// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/merge_calls.h"
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_merge_reads_only_its_inputs {

// In each placement, and in place if rows have no numbers of states of their
// own.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_placements(merge_call(), value, kernel);
  const bool in_place = value.kv_len.empty() &&
                        value.o_dtype == value.kv_dtype &&
                        (kernel.merge_options & QKVET_MERGE_IN_PLACE) != 0;
  for (size_t i = 0; in_place && i < size_t{kPlacementCount}; ++i) {
    plan.calls.push_back(plan.calls[i]);
    plan.calls.back().needs_truth = false;
    plan.calls.back().in_place = true;
  }
  return plan;
}

}  // namespace of_merge_reads_only_its_inputs

extern constinit const Law merge_reads_only_its_inputs{
    "merge_reads_only_its_inputs",
    "A merge reads only the bytes of its inputs, writes exactly the elements "
    "of its outputs, and leaves its caller's state as it was.",
    "merge(states) is the same wherever its tensors lie",
    "none",
    "Nothing beside the tensors is an argument.",
    "Guard pages, canaries and NaN beside the tensors are exact.",
    "(c) it reaches what lies beside the tensors, (d) it needs no oracle",
    10,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    with_states<1>,
    of_merge_reads_only_its_inputs::plan,
    judge_placements};

}  // namespace qkvet::properties
