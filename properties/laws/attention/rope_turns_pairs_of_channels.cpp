// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/quarter_turns.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_rope_turns_pairs_of_channels {

void exact_tables(const Case& value, int64_t, Inputs& inputs) {
  quarter_turns(value, rope_rows(value), inputs);
}

void turned_inputs(const Case& value, int64_t, Inputs& inputs) {
  turn_by_hand(value, inputs);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_rotations(value, kernel, exact_tables);
  plan.calls[0].edit = turned_inputs;
  plan.calls[0].variant = value;
  plan.calls[0].variant->rope = {};
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "rotated beforehand";
  pair.second_name = "rotated by the kernel";
  pair.looks =
      "channels are paired or turned in another way, or stand at other "
      "positions";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_rope_turns_pairs_of_channels

extern constinit const Law rope_turns_pairs_of_channels{
    "rope_turns_pairs_of_channels",
    "A rotation turns each pair of channels of q and k by the angle of its "
    "position.",
    "forward(q, k, rope) = forward(R q, R k), R by quarter turns",
    "a rotation; the law makes its tables",
    "A quarter turn exchanges two channels and changes one sign.",
    "It rounds nothing, so both sides are within the bound of one problem; "
    "never bitwise, for signs of zero differ.",
    "(b) neither side has an error of the rotation, (d) it needs no oracle",
    360,
    Domain{.own_values = true,
           .allows = kAllowPairs | kAllowScores | kOptionLayout |
                     kAllowServing | QKVET_OPTION_ROPE,
           .about = QKVET_OPTION_ROPE},
    with_rotation,
    of_rope_turns_pairs_of_channels::plan,
    of_rope_turns_pairs_of_channels::judge};

}  // namespace qkvet::properties
