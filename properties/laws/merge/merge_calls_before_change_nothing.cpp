// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/merge_calls.h"
#include "properties/calls/other_calls.h"
#include "properties/judging/compare.h"
#include "properties/run/at_once.h"

namespace qkvet::properties {
namespace of_merge_calls_before_change_nothing {

Case constrain(Case value) { return constrain_merge(std::move(value)); }

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_calls_before(merge_call(), value, kernel);
}

Judgement judge(const JudgeInput& input) {
  return judge_calls_before(
      input, {[&](size_t second, const char* name, Judgement& judgement) {
                for (const TensorName output : kOAndLse)
                  compare_calls_bit_for_bit(input, 0, second, output, "before",
                                            name, judgement);
              },
              [&](size_t call, Judgement& judgement) {
                compare_with_truth(input, input.calls[call], judgement);
              }});
}

}  // namespace of_merge_calls_before_change_nothing

extern constinit const Law merge_calls_before_change_nothing{
    "merge_calls_before_change_nothing",
    "A merge gives its own answer whatever merges came before: other states, "
    "another layout, lists of states that come and go, more rows and states "
    "or few.",
    "merge(x | y) = merge(x)",
    "a merge that differs from the case",
    "A call has no other arguments than its own.",
    "The same operations on the same numbers give the same bits; of a kernel "
    "that is not deterministic each call is within its own bound.",
    "(c) it reaches what a kernel keeps between calls, by extents, layout, "
    "option or address",
    92,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    of_merge_calls_before_change_nothing::constrain,
    of_merge_calls_before_change_nothing::plan,
    of_merge_calls_before_change_nothing::judge};

}  // namespace qkvet::properties
