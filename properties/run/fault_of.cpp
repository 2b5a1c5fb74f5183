// SPDX-License-Identifier: Apache-2.0
#include "properties/run/fault_of.h"

#include <algorithm>
#include <charconv>

#include "properties/run/shrink.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::properties {
namespace {

constexpr uint64_t kSeeds = 6;
// Answers of a law's plan that are tried.
constexpr size_t kMostAnswers = 16;

// The number after `name` in "o[b=1,h=0,...]".
int64_t number_in(const std::string& text, std::string_view name) {
  const size_t at = text.find(name);
  int64_t number = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + name.size(), text.data() + text.size(),
                    number);
  return number;
}

// The member that a finding is about.
int64_t member_of(const Case& value, const Finding& finding) {
  if (value.cu_q.empty()) return number_in(finding.where, "b=");
  const int64_t row = number_in(finding.where, "i=");
  const auto next = std::upper_bound(value.cu_q.begin(), value.cu_q.end(), row);
  return next - value.cu_q.begin() - 1;
}

bool says_nothing(const StoryFault& fault) {
  return fault.reaches.empty() && fault.whose.empty();
}

StoryFault served_fault(const Case& value, const JudgedKernel& kernel,
                        int index, Executor& executor, TimeUse& time) {
  StoryFault fault;
  if (value.paging.size == 0) return fault;
  fault.whose =
      "The kernel's: pages, block tables and lengths are given, and right.";
  Case asked = value;
  const auto check = [&](const char* id) {
    return check_case(*find_law(id), asked, kernel, index, executor,
                      /*with_twin=*/false, time);
  };
  // If bits change by themselves, nothing can be concluded from a change.
  if (check("same_call_same_bits").verdict != Verdict::kPassed) return fault;
  const std::pair<const char*, int64_t> laws[] = {
      {"unowned_pages_change_nothing", Reach::kUnowned},
      {"other_members_change_nothing", Reach::kMembers}};
  for (const auto& [id, of] : laws) {
    // No law moves the members of a packed batch alone.
    if (of == Reach::kMembers && !value.cu_q.empty()) continue;
    // The seed also picks the member that stays while its neighbours change.
    for (uint64_t n = 0; n < kSeeds; ++n) {
      asked.seed = value.seed + n;
      const Judgement judgement = check(id);
      if (judgement.verdict != Verdict::kFailed ||
          judgement.kind != FailureKind::kLaw || !judgement.finding)
        continue;
      Reach reach;
      reach.of = of;
      reach.into = member_of(value, *judgement.finding);
      fault.reaches.push_back(reach);
      break;
    }
  }
  return fault;
}

}  // namespace

StoryFault fault_of(const Law& law, const Case& value,
                    const Judgement& judgement, const JudgedKernel& kernel,
                    int index, Executor& executor, TimeUse& time) {
  if (judgement.verdict != Verdict::kFailed ||
      judgement.kind != FailureKind::kLaw || !judgement.finding)
    return {};
  if (law.domain.subject == Subject::kAttention)
    return served_fault(value, kernel, index, executor, time);
  if (law.domain.subject != Subject::kCache) return {};
  const std::vector<PlannedCall> plan = law.plan(value, kernel.info).calls;
  const size_t found = judgement.finding->call;
  if (found >= plan.size() || !is_answer(plan[found])) return {};
  // If two ways are compared, the wrong one may be the other.
  std::vector<size_t> answers = {found};
  for (size_t i = 0; i < plan.size() && answers.size() < kMostAnswers; ++i)
    if (i != found && plan[i].needs_truth) answers.push_back(i);
  StoryFault fault;
  for (const size_t i : answers) {
    fault = fault_at(value, plan, i, kernel, index, executor, time);
    if (says_nothing(fault)) continue;
    if (i != found && !fault.whose.empty())
      fault.whose = "In call " + std::to_string(i) + ", " +
                    command_text(plan[i].snapshot->command) + ": " +
                    fault.whose;
    break;
  }
  if (!fault.whose.empty()) return fault;
  if (!kernel.info.has_read_back)
    fault.whose = "Not known: the cache has no read_back.";
  else if (!gives_back_as_stored(kernel.info))
    fault.whose = "Not known: read_back computes what it gives.";
  else if (plan[found].needs_truth &&
           std::any_of(answers.begin(), answers.end(), [&](size_t i) {
             return !is_all_kept(value.cache, *plan[i].snapshot);
           }))
    fault.whose =
        "Not known: what the first queries of a step saw may be gone behind "
        "it.";
  return fault;
}

}  // namespace qkvet::properties
