// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_merge_agrees_with_oracle {

// Some states, a fifth of them, are empty.
void empty_some(const Case& value, int64_t, Inputs& inputs) {
  for_each_state(value.shape, [&](int64_t t, int64_t h, int64_t n, size_t at) {
    if (random_bits(value.seed, TensorName::kStatesLse, t, h, n, 1) >> 32 <
        UINT32_MAX / 5)
      inputs.bias[at] = kEmptyLse;
  });
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan = plan_merge_edit(empty_some);
  plan.calls.insert(plan.calls.begin(), merge_call());
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const CallView& call : input.calls)
    if (judgement.verdict == Verdict::kPassed)
      compare_with_truth(input, call, judgement);
  return judgement;
}

}  // namespace of_merge_agrees_with_oracle

extern constinit const Law merge_agrees_with_oracle{
    "merge_agrees_with_oracle",
    "The merged o and lse are within what the declared arithmetic allows, "
    "element by element.",
    "RN(o - B) <= y <= RN(o + B)",
    "none",
    "A merge is attention with the lse of the states as scores and their o as "
    "values.",
    "B is derived from the inputs and the declared arithmetic "
    "(reference/bounds.md).",
    "(c) it reaches every input and every element",
    120,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    with_states<1>,
    of_merge_agrees_with_oracle::plan,
    of_merge_agrees_with_oracle::judge};

}  // namespace qkvet::properties
