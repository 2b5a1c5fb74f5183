// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_lengths_equal_shorter_call {

Case constrain(Case value) {
  const auto members = static_cast<size_t>(value.shape.B);
  const bool absent = value.q_len.empty() && value.kv_len.empty();
  if (absent && members <= kMaxMembers)
    value.kv_len.assign(members, (value.shape.Tk + 1) / 2);
  if (chosen_member(value) >= 0) return value;
  // The least that there can be: shrinking ends there.
  if (!value.q_len.empty()) value.q_len[0] = 1;
  if (!value.kv_len.empty()) value.kv_len[0] = 1;
  return value;
}

Judgement judge(const JudgeInput& input) {
  CallPair pair;
  pair.first_name = "with lengths";
  pair.second_name = "in a call that is as short";
  pair.looks = "a length moves the diagonal wrongly, or does not end the keys";
  return judge_member(input, std::move(pair));
}

}  // namespace of_lengths_equal_shorter_call

extern constinit const Law lengths_equal_shorter_call{
    "lengths_equal_shorter_call",
    "A member with lengths equals a call that is as short.",
    "o[b, i < Lq] = forward(q[b, < Lq], k[b, < Lk], v[b, < Lk])",
    "lengths of a member with queries and keys",
    "Elements beyond the lengths are not part of the call, and the diagonal is "
    "counted from the lengths.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    430,
    Domain{.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
                     QKVET_OPTION_LENGTHS | kAllowScores | kAllowMemory,
           .about = QKVET_OPTION_LENGTHS},
    of_lengths_equal_shorter_call::constrain,
    plan_member,
    of_lengths_equal_shorter_call::judge};

}  // namespace qkvet::properties
