// SPDX-License-Identifier: Apache-2.0
// A plan is run once for each layer: other numbers, at the same addresses or at
// others, and the first ones once more.
#include <cmath>

#include "properties/calls/call_pairs.h"
#include "properties/judging/plan_calls.h"

namespace qkvet::properties {
namespace of_runs_of_a_plan_are_calls {

// Far from the earlier data in every visible place: the order of a row's
// weights is reversed, and the values change their signs.
void turn_signs(const Case&, int64_t, Inputs& inputs) {
  for (double& x : inputs.q) x = -x;
  for (double& x : inputs.v) x = -x;
  for (double& x : inputs.bias)
    if (std::isfinite(x)) x = -x;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  const PlannedCall run =
      call_with_plan(value, kernel, Batch::kCase, PlanUse::kRun);
  plan.calls.assign(4, run);
  plan.calls[0].plan_use = PlanUse::kMake;
  plan.calls[1].edit = turn_signs;
  for (size_t n = 0; n < 3; ++n) plan.calls[n].same_place = true;
  plan.calls[3].placement = Placement::kStart;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  if (!is_right_by_itself(input, 0, judgement)) return judgement;
  constexpr const char* kLooks[] = {
      "", "other numbers at the same addresses are not seen",
      "something is left of the run before",
      "numbers at other addresses are not seen"};
  for (size_t n = 1; n < 4; ++n) {
    if (!must_be_right(input, n, kLooks[n], judgement)) return judgement;
    if (n != 2 || !nondeterministic_reason(input.kernel).empty()) continue;
    CallPair pair;
    pair.second = n;
    pair.first_name = "in the first run";
    pair.second_name = "in the third, with the same numbers";
    pair.looks = kLooks[n];
    compare_bit_for_bit(input, pair, judgement);
    if (judgement.verdict == Verdict::kFailed) return judgement;
  }
  return judgement;
}

}  // namespace of_runs_of_a_plan_are_calls

extern constinit const Law runs_of_a_plan_are_calls{
    "runs_of_a_plan_are_calls",
    "Each run of a plan answers what it is given: other numbers at the same "
    "addresses, the first ones again, and the same at other addresses.",
    "run(p, x) = forward(x), for every x",
    "a plan",
    "A plan depends on lengths, tables and options, and on no number of q, k "
    "and v.",
    "Each run is within its own bound; the same call with the same addresses "
    "gives the same bits where the kernel is deterministic.",
    "(c) it reaches what is kept from one run to the next, by address or by "
    "content",
    558,
    Domain{.plans = true, .allows = kAllowPlanned},
    as_it_is,
    of_runs_of_a_plan_are_calls::plan,
    of_runs_of_a_plan_are_calls::judge};

}  // namespace qkvet::properties
