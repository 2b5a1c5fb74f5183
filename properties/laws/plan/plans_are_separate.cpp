// SPDX-License-Identifier: Apache-2.0
// Two plans of a context, with runs and updates in turn: a server has one for
// prefills and one for decodes, or one for each size of a graph.
#include "properties/judging/plan_calls.h"

namespace qkvet::properties {
namespace of_plans_are_separate {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.calls = {
      call_with_plan(value, kernel, Batch::kCase, PlanUse::kMake, 0),
      call_with_plan(value, kernel, Batch::kFull, PlanUse::kMake, 1),
      call_with_plan(value, kernel, Batch::kCase, PlanUse::kRun, 0),
      call_with_plan(value, kernel, Batch::kFull, PlanUse::kRun, 1),
      call_with_plan(value, kernel, Batch::kTurned, PlanUse::kUpdate, 1),
      call_with_plan(value, kernel, Batch::kCase, PlanUse::kRun, 0)};
  plan.calls[4].needs_truth = false;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const size_t n : {size_t{0}, size_t{1}})
    if (!is_right_by_itself(input, n, judgement)) return judgement;
  constexpr const char* kLooks[] = {
      "another plan that was made behind this one reaches its run",
      "the run of another plan reaches the next one", "",
      "another plan that was updated reaches the run of this one"};
  for (const size_t n : {size_t{2}, size_t{3}, size_t{5}})
    if (!must_be_right(input, n, kLooks[n - 2], judgement)) break;
  return judgement;
}

}  // namespace of_plans_are_separate

extern constinit const Law plans_are_separate{
    "plans_are_separate",
    "Two plans of a context have nothing in common: making, running and "
    "updating one of them changes no run of the other.",
    "run(p | q made, run, updated) = run(p)",
    "lengths or starts of members, and a plan",
    "A run has no other arguments than its own plan and its own call.",
    "Each run is within its own bound.",
    "(c) it reaches workspaces and lists of work that plans share",
    556,
    Domain{.plans = true, .allows = kAllowPlanned, .about = kAboutLengths},
    with_a_smaller_batch,
    of_plans_are_separate::plan,
    of_plans_are_separate::judge};

}  // namespace qkvet::properties
