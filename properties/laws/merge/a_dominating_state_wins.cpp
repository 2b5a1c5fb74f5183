// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_a_dominating_state_wins {

Case constrain(Case value) { return constrain_merge(std::move(value), 2); }

constexpr double kAbove = 1000, kBelow = -1000;

// One state of a row is so large that the weights of all others are 0 in every
// format.
void raise_one(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    for (int64_t n = 0; n < s.Tk; ++n) {
      double& lse =
          inputs.bias[static_cast<size_t>(place_of_state(s, t, h, n))];
      const double small = std::fmod(lse, 8);
      lse = small + (n == picked_state(value, t, h) ? kAbove : kBelow);
    }
  });
}

Plan plan(const Case&, const KernelInfo&) { return plan_merge_edit(raise_one); }

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_states(input, picked_state, /*lse_offset=*/0, judgement);
  return judgement;
}

}  // namespace of_a_dominating_state_wins

extern constinit const Law a_dominating_state_wins{
    "a_dominating_state_wins",
    "A state with an lse far above all others is the result.",
    "merge((o, lse), (x, lse - 2000)) = (o, lse)",
    "two states",
    "exp(-1900) is no number of any format, and no lse is near the end of one.",
    "The bound of a merge, around numbers that are known.",
    "(c) it reaches lse whose exponential overflows, (d) it needs no oracle",
    40,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    of_a_dominating_state_wins::constrain,
    of_a_dominating_state_wins::plan,
    of_a_dominating_state_wins::judge};

}  // namespace qkvet::properties
