// SPDX-License-Identifier: Apache-2.0
// Two stories one by one and at once, each with a cache of its own
// (core/door/door_threads.cpp): that of the case, and the same one with each
// sequence replaced by the previous one, which has other tokens.
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_calls_at_once_change_nothing {

// Every sequence becomes the next one, the last one the first.
Story moved_on(Story story, int64_t sequences) {
  const auto next = [&](int64_t s) { return (s + 1) % sequences; };
  for (StoryCommand& command : story) {
    const std::string parents = command.parents;
    for (size_t s = 0; s < parents.size(); ++s)
      command.parents[static_cast<size_t>(next(static_cast<int64_t>(s)))] =
          static_cast<char>('a' + next(parents[s] - 'a'));
    if (command.verb != StoryVerb::kReorder)
      command.sequence = next(command.sequence);
    if (command.verb == StoryVerb::kFork) command.count = next(command.count);
  }
  return story;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = not_at_once_reason(kernel);
  StoryEdits edits;
  edits.want_lse = wants_lse(kernel);
  edits.needs_truth = false;
  add_story(value, value.story, kernel, edits, plan);
  add_story(value, moved_on(value.story, value.shape.B), kernel, edits, plan);
  add_at_once(plan);
  return plan;
}

void compare_lengths(const JudgeInput& input, size_t n, Judgement& judgement) {
  const CallView& alone = input.calls[n];
  const CallView& at_once = input.calls[n + input.calls.size() / 2];
  ++judgement.compared;
  if (alone.outcome->lengths == at_once.outcome->lengths) return;
  Finding finding;
  finding.call = n + 1;
  finding.where = "length() behind " + command_place(alone);
  finding.expected = "what it is alone";
  finding.actual = "another number, at once with other caches";
  finding.looks = "caches of several threads share memory";
  add_failure(judgement, std::move(finding));
}

void compare_output(const JudgeInput& input, size_t n, TensorName tensor,
                    Judgement& judgement) {
  Judgement own;
  compare_calls_bit_for_bit(input, pair_at_once(input, n), tensor, own,
                            command_place(input.calls[n]) + ": ");
  judgement.compared += own.compared;
  if (!own.finding) return;
  own.finding->call = n + 1;
  add_failure(judgement, std::move(*own.finding));
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 0; n < input.calls.size() / 2; ++n) {
    const CallView& call = input.calls[n];
    compare_lengths(input, n, judgement);
    const Snapshot& snapshot = *call.planned->snapshot;
    if (snapshot.queries == 0) continue;
    for (const TensorName tensor : kOAndLse)
      compare_output(input, n, tensor, judgement);
  }
  return judgement;
}

}  // namespace of_cache_calls_at_once_change_nothing

extern constinit const Law cache_calls_at_once_change_nothing{
    "cache_calls_at_once_change_nothing",
    "Caches in several threads at once, each with a context of its own, answer "
    "what they answer one by one, where the kernel declares it.",
    "story(a) || story(b) = story(a), story(b)",
    "a story of legal commands; a deterministic kernel on the CPU that "
    "declares reentrant",
    "A cache holds what it was given and nothing of another one.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (c) it reaches what caches share",
    85,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_calls_at_once_change_nothing::plan,
    of_cache_calls_at_once_change_nothing::judge};

}  // namespace qkvet::properties
