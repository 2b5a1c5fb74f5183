// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_packed_members_equal_calls {

Case constrain(Case value) {
  return !value.cu_q.empty() && chosen_member(value) >= 0
             ? value
             : with_two_members(value);
}

Judgement judge(const JudgeInput& input) {
  CallPair pair;
  pair.first_name = "in a packed batch";
  pair.second_name = "in a call of its own";
  pair.looks = "a member begins or ends at another place, or sees another one";
  return judge_member(input, std::move(pair));
}

}  // namespace of_packed_members_equal_calls

extern constinit const Law packed_members_equal_calls{
    "packed_members_equal_calls",
    "A member of a packed batch equals a call of its own.",
    "o[cu_q[m] .. cu_q[m+1]) = forward(rows of q, k and v of member m); in "
    "pages, that member alone in the same pages",
    "a packed batch; the member has queries and keys",
    "Sequences share only memory.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    440,
    Domain{.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
                     QKVET_OPTION_PACKED | kAllowScores | kAllowMemory,
           .about = QKVET_OPTION_PACKED | QKVET_OPTION_PACKED_PAGES},
    of_packed_members_equal_calls::constrain,
    plan_member,
    of_packed_members_equal_calls::judge};

}  // namespace qkvet::properties
