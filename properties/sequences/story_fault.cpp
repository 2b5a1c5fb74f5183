// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/story_fault.h"

#include <algorithm>

#include "properties/sequences/story_run.h"

namespace qkvet::properties {
namespace {

// Stories that are longer are left alone: each token may cost some runs.
constexpr size_t kMostCommandsTried = 256;
constexpr int64_t kMostTokens = 4096;

bool is_short(const std::vector<PlannedCall>& plan, size_t at) {
  int64_t tokens = 0;
  for (size_t i = 0; i <= at; ++i)
    tokens += plan[i].snapshot ? plan[i].snapshot->new_tokens : 0;
  return at < kMostCommandsTried && tokens <= kMostTokens;
}

// A token of NaN that the law gives the sequence to keep: what is read back or
// answered with it is right as NaN, and tells nothing apart.
bool holds_nan(const Snapshot& snapshot) {
  return std::any_of(snapshot.history.begin(), snapshot.history.end(),
                     [](const Token& token) { return token.tag < 0; });
}

}  // namespace

bool is_answer(const PlannedCall& call) {
  if (!call.snapshot || call.expects_refusal || call.mistake != Mistake::kNone)
    return false;
  return call.operation == Operation::kCacheReadBack ||
         call.snapshot->queries > 0;
}

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

}  // namespace qkvet::properties
