// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_equal_states_keep_o_and_add_up {

Case constrain(Case value) { return constrain_merge(std::move(value), 2); }

int64_t first_state(const Case&, int64_t, int64_t) { return 0; }

// Every state of a row becomes its first one.
void repeat_first(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    const int64_t first = place_of_state(s, t, h, 0);
    for (int64_t n = 1; n < counted_keys(value, t); ++n) {
      inputs.bias[static_cast<size_t>(first + n)] =
          inputs.bias[static_cast<size_t>(first)];
      std::copy_n(inputs.v.begin() + first * s.dv, s.dv,
                  inputs.v.begin() + (first + n) * s.dv);
    }
  });
}

Plan plan(const Case&, const KernelInfo&) {
  return plan_merge_edit(repeat_first);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_states(input, first_state,
                      std::log(static_cast<double>(input.value.shape.Tk)),
                      judgement);
  return judgement;
}

}  // namespace of_equal_states_keep_o_and_add_up

extern constinit const Law equal_states_keep_o_and_add_up{
    "equal_states_keep_o_and_add_up",
    "n equal states share the weight: o stays, and lse grows by ln n.",
    "merge((o, lse), (o, lse)) = (o, lse + ln 2)",
    "two states; as many of every row",
    "n equal exponentials make each weight 1/n and their sum n times one of "
    "them.",
    "The bound of a merge, around numbers that are known.",
    "(d) it needs no oracle: it tells the base of lse by itself",
    50,
    Domain{.subject = Subject::kMerge, .allows = kAllowMerge},
    of_equal_states_keep_o_and_add_up::constrain,
    of_equal_states_keep_o_and_add_up::plan,
    of_equal_states_keep_o_and_add_up::judge};

}  // namespace qkvet::properties
