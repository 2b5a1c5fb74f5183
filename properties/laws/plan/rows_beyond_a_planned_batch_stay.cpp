// SPDX-License-Identifier: Apache-2.0
// Rows that do not count are unowned, or belong to others: if a graph is
// replayed, the buffers have room for the largest batch, and later readers use
// the rows after a smaller one.
#include <algorithm>

#include "properties/judging/compare.h"
#include "properties/judging/plan_calls.h"

namespace qkvet::properties {
namespace of_rows_beyond_a_planned_batch_stay {

bool has_rows_beyond(const Case& value) {
  if (!value.cu_q.empty()) return value.cu_q.back() < value.shape.Tq;
  return std::ranges::any_of(
      value.q_len, [&](int64_t rows) { return rows < value.shape.Tq; });
}

Case constrain(Case value) {
  if (has_rows_beyond(value)) return value;
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.B = std::min<int64_t>(s.B, static_cast<int64_t>(kMaxMembers));
  for (int64_t& start : value.cu_q) start = std::min(start, s.Tq - 1);
  if (value.cu_q.empty())
    value.q_len.assign(static_cast<size_t>(s.B), s.Tq - 1);
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.calls = {call_with_plan(value, kernel, Batch::kCase, PlanUse::kMake),
                call_with_plan(value, kernel, Batch::kFull, PlanUse::kMake),
                call_with_plan(value, kernel, Batch::kCase, PlanUse::kUpdate)};
  for (PlannedCall& call : plan.calls) call.needs_truth = false;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const size_t n : {size_t{0}, size_t{2}}) {
    const CallOutcome& outcome = *input.calls[n].outcome;
    ++judgement.compared;
    if (!outcome.overwritten) continue;
    Finding finding;
    finding.where = element_name(*outcome.overwritten, input.value.shape,
                                 outcome.overwritten_index);
    finding.expected = "as it was: the row does not count";
    finding.actual = "written";
    finding.looks = n == 0 ? "a batch is padded to its capacity"
                           : "what is left of a larger batch is still computed";
    finding.planned = static_cast<int32_t>(n);
    judgement.verdict = Verdict::kFailed;
    judgement.finding = std::move(finding);
    return judgement;
  }
  return judgement;
}

}  // namespace of_rows_beyond_a_planned_batch_stay

extern constinit const Law rows_beyond_a_planned_batch_stay{
    "rows_beyond_a_planned_batch_stay",
    "A run writes the rows of the batch that was planned last, and no row "
    "after them.",
    "o[i] and lse[i] after run() = before, for i beyond the rows that count",
    "rows of queries that do not count, and a plan",
    "They are not part of the call.",
    "They are not computed.",
    "(a) it is exact, (c) it reaches the work that a larger batch has left",
    554,
    Domain{.plans = true,
           .allows = kAllowPlanned,
           .about = QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED},
    of_rows_beyond_a_planned_batch_stay::constrain,
    of_rows_beyond_a_planned_batch_stay::plan,
    of_rows_beyond_a_planned_batch_stay::judge};

}  // namespace qkvet::properties
