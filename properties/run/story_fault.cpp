// SPDX-License-Identifier: Apache-2.0
#include "properties/run/story_fault.h"

#include <algorithm>

#include "properties/calls/story_storage.h"
#include "properties/run/served_fault.h"
#include "properties/run/story_reach.h"
#include "properties/run/story_whose.h"

namespace qkvet::properties {
namespace {

// Stories that are longer are left alone: each token may cost some runs.
constexpr size_t kMostCommands = 256;
constexpr int64_t kMostTokens = 4096;
// Answers of a law's plan that are tried.
constexpr size_t kMostAnswers = 16;

bool is_answer(const PlannedCall& call) {
  if (!call.snapshot || call.expects_refusal || call.mistake != Mistake::kNone)
    return false;
  return call.operation == Operation::kCacheReadBack ||
         call.snapshot->queries > 0;
}

bool is_short(const std::vector<PlannedCall>& plan, size_t at) {
  int64_t tokens = 0;
  for (size_t i = 0; i <= at; ++i)
    tokens += plan[i].snapshot ? plan[i].snapshot->new_tokens : 0;
  return at < kMostCommands && tokens <= kMostTokens;
}

// A token of NaN that the law gives the sequence to keep: what is read back or
// answered with it is right as NaN, and tells nothing apart.
bool holds_nan(const Snapshot& snapshot) {
  return std::any_of(snapshot.history.begin(), snapshot.history.end(),
                     [](const Token& token) { return token.tag < 0; });
}

bool says_nothing(const StoryFault& fault) {
  return fault.reaches.empty() && fault.whose.empty();
}

}  // namespace

StoryFault fault_at(const Case& value, const std::vector<PlannedCall>& plan,
                    size_t at, const JudgedKernel& kernel, int index,
                    Executor& executor, TimeUse& time) {
  StoryFault fault;
  if (at >= plan.size() || !is_answer(plan[at]) || !is_short(plan, at) ||
      holds_nan(*plan[at].snapshot))
    return fault;
  const StoryRun story(value, plan, at, kernel, index, executor, time);
  if (!is_steady(story)) return fault;
  fault.reaches = find_reaches(story);
  fault.whose = whose_fault(story);
  return fault;
}

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
