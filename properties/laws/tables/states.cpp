// SPDX-License-Identifier: Apache-2.0
// Merges of states of which one, or all alike, are the result.
#include <algorithm>
#include <cmath>

#include "properties/calls/merge_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_states {

// One state of a row is so large that the weights of all others are 0 in every
// format.
void raise_one(const Case& value, int64_t, Inputs& inputs) {
  constexpr double kAbove = 1000, kBelow = -1000;
  const Shape& s = value.shape;
  for_each_state(s, [&](int64_t t, int64_t h, int64_t n, size_t at) {
    const double small = std::fmod(inputs.bias[at], 8);
    inputs.bias[at] =
        small + (n == picked_state(value, t, h) ? kAbove : kBelow);
  });
}

// All states of a row but one are emptied; their o stays.
void leave_one(const Case& value, int64_t, Inputs& inputs) {
  for_each_state(value.shape, [&](int64_t t, int64_t h, int64_t n, size_t at) {
    if (n != picked_state(value, t, h)) inputs.bias[at] = kEmptyLse;
  });
}

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

Judgement judge_picked(const JudgeInput& input) {
  Judgement judgement;
  compare_with_states(input, picked_state, /*lse_offset=*/0, judgement);
  return judgement;
}

int64_t first_state(const Case&, int64_t, int64_t) { return 0; }

Judgement judge_first(const JudgeInput& input) {
  Judgement judgement;
  compare_with_states(input, first_state,
                      std::log(static_cast<double>(input.value.shape.Tk)),
                      judgement);
  return judgement;
}

constexpr Law kRows[] = {
    {.id = "a_dominating_state_wins",
     .sentence = "A state with an lse far above all others is the result.",
     .formula = "merge((o, lse), (x, lse - 2000)) = (o, lse)",
     .precondition = "two states",
     .reason = "exp(-1900) is no number of any format, and no lse is near the "
               "end of one.",
     .rounding = "The bound of a merge, around numbers that are known.",
     .kept_for = "(c) it reaches lse whose exponential overflows, (d) it needs "
                 "no oracle",
     .rank = 40,
     .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
     .constrain = with_states<2>,
     .own_plan = plan_one_call<raise_one>,
     .own_judge = judge_picked},
    {.id = "empty_states_change_nothing",
     .sentence =
         "An empty state is neutral: beside it the other one is the result.",
     .formula = "merge((o, lse), (x, -inf)) = (o, lse)",
     .precondition = "two states",
     .reason = "exp(-inf) is 0, whatever x is.",
     .rounding = "The bound of a merge, around numbers that are known.",
     .kept_for = "(d) it needs no oracle",
     .rank = 30,
     .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
     .constrain = with_states<2>,
     .own_plan = plan_one_call<leave_one>,
     .own_judge = judge_picked},
    {.id = "equal_states_keep_o_and_add_up",
     .sentence =
         "n equal states share the weight: o stays, and lse grows by ln n.",
     .formula = "merge((o, lse), (o, lse)) = (o, lse + ln 2)",
     .precondition = "two states; as many of every row",
     .reason = "n equal exponentials make each weight 1/n and their sum n "
               "times one of them.",
     .rounding = "The bound of a merge, around numbers that are known.",
     .kept_for = "(d) it needs no oracle: it tells the base of lse by itself",
     .rank = 50,
     .domain = {.subject = Subject::kMerge, .allows = kAllowMerge},
     .constrain = with_states<2>,
     .own_plan = plan_one_call<repeat_first>,
     .own_judge = judge_first},
};

}  // namespace of_states

extern constinit const LawTable states_laws{of_states::kRows};

}  // namespace qkvet::properties
