// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/quarter_turns.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_rope_sees_only_distances {

// All positions move on by `ahead`.
void moved_on(const Case& value, int64_t ahead, Inputs& inputs) {
  quarter_turns(value, rope_rows(value) + ahead, inputs);
  for (auto* positions : {&inputs.q_positions, &inputs.k_positions})
    for (int64_t& position : *positions) position += ahead;
}

Case constrain(Case value) {
  value = with_rotation(std::move(value));
  value.rope.random_positions = false;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  constexpr uint64_t kMost = 9;
  const auto ahead = static_cast<int64_t>(1 + value.seed % kMost);
  Plan plan = plan_rotations(value, kernel, moved_on, ahead);
  plan.calls[0].edit = moved_on;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "at these positions";
  pair.second_name = "some positions on";
  pair.looks = "queries and keys do not move together";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_rope_sees_only_distances

extern constinit const Law rope_sees_only_distances{
    "rope_sees_only_distances",
    "Moving all positions on by the same number changes nothing.",
    "forward(q at p, k at r) = forward(q at p + n, k at r + n)",
    "a rotation, positions in order; the law makes the tables",
    "Both sides of a score are turned by the same angle, which keeps their "
    "product (Su et al., RoFormer, 3.2.1).",
    "Quarter turns round nothing, so both sides are within the bound of one "
    "problem.",
    "(c) it reaches positions far from where the rows are, (d) it needs no "
    "oracle",
    370,
    Domain{
        .allows = kAllowPairs | kAllowScores | kAllowMemory | QKVET_OPTION_ROPE,
        .about = QKVET_OPTION_ROPE},
    of_rope_sees_only_distances::constrain,
    of_rope_sees_only_distances::plan,
    of_rope_sees_only_distances::judge};

}  // namespace qkvet::properties
