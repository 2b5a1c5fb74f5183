// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/prompt_ways.h"

#include <algorithm>

#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace {

const std::vector<std::byte>& output_of(const CallView& call,
                                        TensorName tensor) {
  return tensor == TensorName::kO ? call.outcome->o : call.outcome->lse;
}

const std::vector<double>& bound_of(const CallView& call, TensorName tensor) {
  return tensor == TensorName::kO ? call.truth->bound->o
                                  : call.truth->bound->lse;
}

// Rows of one step against the same rows of the whole prompt.
void compare_step(const JudgeInput& input, const CallView& whole,
                  const CallView& step, TensorName tensor,
                  Judgement& judgement) {
  const bool is_o = tensor == TensorName::kO;
  const Dtype dtype =
      is_o ? input.value.o_dtype : lse_dtype(input.value.o_dtype);
  const std::vector<double> all = as_doubles(output_of(whole, tensor), dtype);
  const std::vector<double> part = as_doubles(output_of(step, tensor), dtype);
  const auto& all_bound = bound_of(whole, tensor);
  const auto& part_bound = bound_of(step, tensor);
  const int64_t width = is_o ? input.value.shape.dv : 1;
  const int64_t tokens = whole.planned->snapshot->queries;
  const int64_t from = step.planned->snapshot->first_query;
  const int64_t rows = step.planned->snapshot->queries;
  for (size_t m = 0; m < part.size(); ++m) {
    const auto at = static_cast<int64_t>(m);
    const int64_t head = at / width / rows;
    const int64_t row = from + at / width % rows;
    const auto n =
        static_cast<size_t>((head * tokens + row) * width + at % width);
    if (sees_no_key(step, at / width)) continue;
    const double reach =
        is_o ? std::max((*whole.truth->reach)[n], (*step.truth->reach)[m]) : 0;
    auto finding =
        compare_two_ways({all[n], part[m], all_bound[n] + part_bound[m], reach,
                          dtype, "the prompt in one step", "in smaller steps"},
                         judgement);
    if (!finding) continue;
    finding->call = call_number(input, step);
    const Shape shape = step_case(input.value, *step.planned->snapshot).shape;
    finding->where = "call " + std::to_string(finding->call) + ", " +
                     command_place(step) + ": " +
                     element_name(tensor, shape, at) + ", token " +
                     std::to_string(row);
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
