// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_merge_agrees_with_oracle {

Case constrain(Case value) { return constrain_merge(std::move(value)); }

// Some states, a fifth of them, are empty.
void empty_some(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    for (int64_t n = 0; n < s.Tk; ++n)
      if (random_bits(value.seed, TensorName::kStatesLse, t, h, n, 1) >> 32 <
          UINT32_MAX / 5)
        inputs.bias[static_cast<size_t>(place_of_state(s, t, h, n))] =
            kEmptyLse;
  });
}

Plan plan(const Case& value, const KernelInfo&) {
  return plan_merge_pair(value, empty_some);
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
    of_merge_agrees_with_oracle::constrain,
    of_merge_agrees_with_oracle::plan,
    of_merge_agrees_with_oracle::judge};

}  // namespace qkvet::properties
