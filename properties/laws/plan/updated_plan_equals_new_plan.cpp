// SPDX-License-Identifier: Apache-2.0
// A plan that was made for another batch is given the lengths and tables of the
// case: once from all rows and keys, so that leftovers are too many, and once
// from the same members in another order.
#include "properties/calls/call_pairs.h"
#include "properties/judging/plan_calls.h"
#include "qkvet/plan.h"

namespace qkvet::properties {
namespace of_updated_plan_equals_new_plan {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.calls = {call_with_plan(value, kernel, Batch::kCase, PlanUse::kMake),
                call_with_plan(value, kernel, Batch::kFull, PlanUse::kMake),
                call_with_plan(value, kernel, Batch::kCase, PlanUse::kUpdate),
                call_with_plan(value, kernel, Batch::kTurned, PlanUse::kMake),
                call_with_plan(value, kernel, Batch::kCase, PlanUse::kUpdate)};
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const size_t first : {size_t{0}, size_t{1}, size_t{3}})
    if (!is_right_by_itself(input, first, judgement)) return judgement;
  const bool same_bits =
      (input.kernel.plan_options & QKVET_PLAN_UPDATE_INVARIANT) != 0 &&
      nondeterministic_reason(input.kernel).empty();
  for (const size_t second : {size_t{2}, size_t{4}}) {
    if (!must_be_right(input, second,
                       second == 2
                           ? "something is left of the larger batch that was "
                             "planned before"
                           : "something is left of the batch that was planned "
                             "before",
                       judgement))
      return judgement;
    if (!same_bits) continue;
    CallPair pair;
    pair.second = second;
    pair.first_name = "with a new plan";
    pair.second_name = "with a plan that was updated";
    pair.looks = "something is left of the batch that was planned before";
    compare_bit_for_bit(input, pair, judgement);
  }
  return judgement;
}

}  // namespace of_updated_plan_equals_new_plan

extern constinit const Law updated_plan_equals_new_plan{
    "updated_plan_equals_new_plan",
    "A plan that gets the lengths and tables of another batch runs as one that "
    "was made for it: after a larger batch, and after the same sequences in "
    "another order.",
    "run(update(plan(a), b)) = run(plan(b))",
    "lengths or starts of members, and a plan",
    "A run has no other arguments than the last lengths and tables.",
    "Each run is within its own bound; the same bits are required where "
    "update_invariant is claimed.",
    "(c) it reaches what a plan keeps when it is updated",
    559,
    Domain{.plans = true, .allows = kAllowPlanned, .about = kAboutLengths},
    with_a_smaller_batch,
    of_updated_plan_equals_new_plan::plan,
    of_updated_plan_equals_new_plan::judge};

}  // namespace qkvet::properties
