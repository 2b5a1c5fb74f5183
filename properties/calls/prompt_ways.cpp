// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/prompt_ways.h"

#include <algorithm>

#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace {

// Rows of one step against the same rows of the whole prompt.
void compare_step(const JudgeInput& input, const CallView& whole,
                  const CallView& step, TensorName tensor,
                  Judgement& judgement) {
  const CallOutput all = output_of(input, whole, tensor);
  const CallOutput part = output_of(input, step, tensor);
  for (size_t m = 0; m < part.values.size(); ++m) {
    Element at = part.grid.at(m);
    if (sees_no_key(step, part, m)) continue;
    at.i += step.planned->snapshot->first_query;
    auto finding =
        compare_two_ways(all, all.grid.index(at), "the prompt in one step",
                         part, m, "in smaller steps", {}, judgement);
    if (!finding) continue;
    name_in_story(call_number(input, step), step, part.grid.name(m), *finding);
    finding->where += ", token " + std::to_string(at.i);
    add_failure(judgement, std::move(*finding));
  }
}

}  // namespace

Plan plan_prompt_ways(const Case& value, const KernelInfo& kernel,
                      const std::vector<std::vector<int64_t>>& ways) {
  Plan plan;
  StoryEdits edits;
  edits.want_lse = wants_lse(kernel);
  add_story(value, value.story, kernel, edits, plan);
  for (const std::vector<int64_t>& way : ways) {
    Story story;
    for (const int64_t tokens : way)
      story.push_back({StoryVerb::kStep, 0, tokens});
    add_story(value, story, kernel, edits, plan);
  }
  return plan;
}

Judgement judge_prompt_ways(const JudgeInput& input) {
  Judgement judgement;
  const CallView& whole = input.calls[1];  // after its create
  for (const CallView& call : input.calls.subspan(2)) {
    if (call.truth == nullptr) continue;  // a create
    compare_step(input, whole, call, TensorName::kO, judgement);
    if (!call.outcome->lse.empty())
      compare_step(input, whole, call, TensorName::kLse, judgement);
  }
  return judgement;
}

}  // namespace qkvet::properties
