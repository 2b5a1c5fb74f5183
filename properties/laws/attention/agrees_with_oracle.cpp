// SPDX-License-Identifier: Apache-2.0
// The general law, and the last one: o, lse and weights within the bound of
// the declared arithmetic, element by element.
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_agrees_with_oracle {

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.want_weights = wants_weights(kernel);
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_truth(input, input.calls[0], judgement);
  return judgement;
}

}  // namespace of_agrees_with_oracle

extern constinit const Law agrees_with_oracle{
    "agrees_with_oracle",
    "The output is within what the declared arithmetic allows, element by "
    "element.",
    "RN(o - B) <= y <= RN(o + B)",
    "none",
    "o is the definition, computed in double.",
    "B is derived from the inputs and the declared arithmetic "
    "(reference/bounds.md).",
    "(c) it reaches every input and every element",
    570,
    Domain{.votes = true,
           .allows = kAllowAll | QKVET_OPTION_EMPTY_EXTENTS |
                     QKVET_OPTION_KEY_LISTS | kAllowFields},
    as_it_is,
    of_agrees_with_oracle::plan,
    of_agrees_with_oracle::judge};

}  // namespace qkvet::properties
