// SPDX-License-Identifier: Apache-2.0
// Runs with another scale, another causal rule, another window and more rows
// than were planned, and updates to batches that are too large. Each is refused
// with a reason and writes nothing, and the plan is as good as before.
#include <algorithm>

#include "properties/calls/other_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/malformed_numbers.h"
#include "properties/judging/plan_calls.h"

namespace qkvet::properties {
namespace of_plans_refuse_what_they_were_not_made_for {

// The mistake of a call, in the order of the calls.
enum class Foreign : uint8_t {
  kScale,
  kCausal,
  kWindow,
  kRunRows,
  kUpdateRows,
  kUpdateMembers,
  kUpdateLength
};
struct Row {
  Foreign foreign;
  const char* text;
};
constexpr Row kRows[] = {
    {Foreign::kScale, "run() with another scale than plan()"},
    {Foreign::kCausal, "run() with another causal rule than plan()"},
    {Foreign::kWindow, "run() with a window, plan() without"},
    {Foreign::kRunRows, "run() with more rows than plan()"},
    {Foreign::kUpdateRows, "update() with more rows than plan()"},
    {Foreign::kUpdateMembers, "update() with a member more than plan()"},
    {Foreign::kUpdateLength,
     "update() with a length for which there are no "
     "rows"}};

Causal other_rule(const Case& value, const KernelInfo& kernel) {
  const auto takes = [&](Causal rule, uint64_t option) {
    return value.causal != rule && kernel.has_option(option);
  };
  if (takes(Causal::kTopLeft, QKVET_OPTION_CAUSAL_TOP_LEFT))
    return Causal::kTopLeft;
  if (takes(Causal::kBottomRight, QKVET_OPTION_CAUSAL_BOTTOM_RIGHT))
    return Causal::kBottomRight;
  return kernel.has_flag(QKVET_FLAG_CAUSAL_ONLY) ? value.causal : Causal::kNone;
}

// Some kernels refuse a rule with a mask or a bias, so such a call is no test
// of plans.
bool may_change_rule(const Case& value, const KernelInfo& kernel) {
  return value.mask.kind == MaskKind::kNone && !value.score_bias &&
         other_rule(value, kernel) != value.causal;
}

Case with_a_member_more(Case value) {
  ++value.shape.B;
  value.set.clear();
  if (!value.q_len.empty()) value.q_len.push_back(value.shape.Tq);
  if (!value.kv_len.empty()) value.kv_len.push_back(value.shape.Tk);
  return value;
}

void inputs_with_a_member_more(const Case& value, int64_t, Inputs& inputs) {
  inputs = make_inputs(with_a_member_more(value));
}

bool fits(Foreign foreign, const Case& value, const KernelInfo& kernel) {
  switch (foreign) {
    case Foreign::kScale:
      return kernel.has_option(QKVET_OPTION_SCALE);
    case Foreign::kCausal:
      return may_change_rule(value, kernel);
    case Foreign::kWindow:
      return !value.window && kernel.has_option(QKVET_OPTION_WINDOW);
    case Foreign::kRunRows:
    case Foreign::kUpdateRows:
      return value.file == 0;
    case Foreign::kUpdateMembers:
      return value.file == 0 && value.cu_q.empty() &&
             value.shape.B < static_cast<int64_t>(kMaxMembers);
    case Foreign::kUpdateLength:
      return can_be_made(Mistake::kLengthBeyond, value);
  }
  return false;
}

PlannedCall call_of(Foreign foreign, const Case& value,
                    const KernelInfo& kernel) {
  PlannedCall call;
  call.plan_use = PlanUse::kRun;
  switch (foreign) {
    case Foreign::kScale:
      call.variant = value;
      call.variant->scale = static_cast<float>(2 * scale_of(value) + 1);
      break;
    case Foreign::kCausal:
      call.variant = value;
      call.variant->causal = other_rule(value, kernel);
      break;
    case Foreign::kWindow:
      call.variant = value;
      call.variant->window = Window{1, 0};
      break;
    case Foreign::kUpdateRows:
    case Foreign::kRunRows:
      call = calls_of_other_shapes(value, kernel, Operation::kForward)[0];
      call.only_between = false;
      call.plan_use =
          foreign == Foreign::kRunRows ? PlanUse::kRun : PlanUse::kUpdate;
      break;
    case Foreign::kUpdateMembers:
      call.variant = with_a_member_more(value);
      call.edit = inputs_with_a_member_more;
      call.plan_use = PlanUse::kUpdate;
      break;
    case Foreign::kUpdateLength:
      call.mistake = Mistake::kLengthBeyond;
      call.plan_use = PlanUse::kUpdate;
      break;
  }
  call.want_lse = wants_lse(kernel);  // as planned: only one thing is wrong
  call.expects_refusal = true;
  return call;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.calls.push_back(
      call_with_plan(value, kernel, Batch::kCase, PlanUse::kMake));
  for (const Row& row : kRows)
    if (fits(row.foreign, value, kernel))
      plan.calls.push_back(call_of(row.foreign, value, kernel));
  plan.calls.push_back(
      call_with_plan(value, kernel, Batch::kCase, PlanUse::kRun));
  plan.calls.back().expects_refusal = true;  // of a corrupted plan
  return plan;
}

// The mistake of a call that should have been refused; null: none.
const char* wrong_with(const CallOutcome& outcome) {
  if (outcome.status == CallStatus::kDone) return "accepted";
  if (outcome.overwritten) return "refused, and outputs written";
  return outcome.gave_reason ? nullptr : "refused without a reason";
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  if (!is_right_by_itself(input, 0, judgement)) return judgement;
  size_t n = 0;
  for (const Row& row : kRows) {
    if (!fits(row.foreign, input.value, input.kernel)) continue;
    const char* const wrong = wrong_with(*input.calls[++n].outcome);
    ++judgement.compared;
    if (wrong == nullptr) continue;
    Finding finding;
    finding.where = row.text;
    finding.expected = "refused with a reason, and nothing written";
    finding.actual = wrong;
    finding.planned = static_cast<int32_t>(n);
    add_failure(judgement, std::move(finding));
    return judgement;
  }
  const CallOutcome& last = *input.calls[n + 1].outcome;
  if (last.status == CallStatus::kDone) {
    must_be_right(input, n + 1, "something is left of what was refused",
                  judgement);
    return judgement;
  }
  Finding finding;
  finding.where = "run() of the plan, behind what it refused";
  finding.expected = "a result: the plan is as it was";
  finding.actual = last.text;
  finding.planned = static_cast<int32_t>(n + 1);
  add_failure(judgement, std::move(finding));
  return judgement;
}

}  // namespace of_plans_refuse_what_they_were_not_made_for

extern constinit const Law plans_refuse_what_they_were_not_made_for{
    "plans_refuse_what_they_were_not_made_for",
    "A run with other options or extents than the plan was made for is refused "
    "with a reason, and so is an update beyond its capacity; nothing is "
    "written, and the plan stays as it was.",
    "run(plan(a), b), update(plan(a), b) with other options or extents: error",
    "a plan",
    "The plan belongs to another call.",
    "Nothing is computed; the last run is within its own bound.",
    "(c) it reaches error paths, which no legal call enters",
    552,
    Domain{.plans = true, .allows = kAllowPlanned},
    as_it_is,
    of_plans_refuse_what_they_were_not_made_for::plan,
    of_plans_refuse_what_they_were_not_made_for::judge};

}  // namespace qkvet::properties
