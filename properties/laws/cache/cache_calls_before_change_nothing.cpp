// SPDX-License-Identifier: Apache-2.0
// The story of the case, and once more after other stories, each on a cache of
// its own: with other tokens, with a rotation or a window that is added,
// removed or changed, or with more capacity.
#include <optional>

#include "properties/calls/other_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_calls_before_change_nothing {

constexpr size_t kMostKinds = 2;

void add_whole_story(const Case& value, const KernelInfo& kernel,
                     bool new_process, Plan& plan) {
  StoryEdits edits;
  edits.want_lse = wants_lse(kernel);
  edits.needs_truth = false;
  const size_t first = plan.calls.size();
  add_story(value, value.story, kernel, edits, plan);
  plan.calls[first].new_process = new_process;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  add_whole_story(value, kernel, /*new_process=*/false, plan);
  const size_t own = plan.calls.size();
  for (const CallStepKind kind : kinds_before(value, kernel, kMostKinds)) {
    const size_t first = plan.calls.size();
    const Case other = *other_case(value, kernel, kind);
    add_whole_story(other, kernel, first == own && begins_anew(value, kernel),
                    plan);
    for (size_t n = first; n < plan.calls.size(); ++n) {
      plan.calls[n].variant = other;
      plan.calls[n].own_inputs = plan.calls[n].only_between = true;
    }
    add_whole_story(value, kernel, /*new_process=*/false, plan);
    // The placements take turns: as in the first story.
    for (size_t n = 0; n < own; ++n)
      plan.calls[plan.calls.size() - own + n].placement =
          plan.calls[n].placement;
  }
  if (plan.calls.size() == own)
    plan.not_applicable = "no other cache of the kernel is like this one";
  return plan;
}

void compare_command(const JudgeInput& input, size_t first, size_t second,
                     const char* name, Judgement& judgement) {
  const CallView& before = input.calls[first];
  const CallView& after = input.calls[second];
  ++judgement.compared;
  if (before.outcome->lengths != after.outcome->lengths) {
    Finding finding;
    finding.where = "length() after " + command_place(before);
    finding.expected = "what it was before";
    finding.actual = std::string("another number, ") + name;
    add_failure(judgement, std::move(finding));
  }
  const Snapshot& snapshot = *before.planned->snapshot;
  if (snapshot.queries == 0) return;
  CallPair pair;
  pair.first = first;
  pair.second = second;
  pair.first_name = "before";
  pair.second_name = name;
  for (const TensorName tensor : kOAndLse)
    compare_calls_bit_for_bit(input, pair, tensor, judgement,
                              command_place(before) + ": ");
}

// The number of the story's calls: up to the second create.
size_t calls_of_story(const JudgeInput& input) {
  size_t n = 1;
  while (n < input.calls.size() &&
         input.calls[n].planned->operation != Operation::kCacheCreate)
    ++n;
  return n;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const size_t own = calls_of_story(input);
  size_t second = own;
  for (const CallStepKind kind :
       kinds_before(input.value, input.kernel, kMostKinds)) {
    while (input.calls[second].planned->only_between) ++second;
    const std::string name = std::string("after ") + step_name(kind);
    for (size_t n = 0; n < own && !judgement.finding; ++n)
      compare_command(input, n, second + n, name.c_str(), judgement);
    if (judgement.finding) {
      judgement.finding->looks =
          "something is left over from an earlier cache: " +
          std::string(step_name(kind));
      break;
    }
    second += own;
  }
  return judgement;
}

}  // namespace of_cache_calls_before_change_nothing

extern constinit const Law cache_calls_before_change_nothing{
    "cache_calls_before_change_nothing",
    "A cache answers the same whatever caches there were before: with other "
    "tokens, a rotation or a window that comes, goes or is another one, or "
    "with room for more.",
    "story(a | b) = story(a)",
    "a story of legal commands; a deterministic kernel",
    "A cache holds what it was given and nothing of another one.",
    "The same operations on the same numbers give the same bits.",
    "(c) it reaches what a kernel keeps between caches",
    82,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_calls_before_change_nothing::plan,
    of_cache_calls_before_change_nothing::judge};

}  // namespace qkvet::properties
