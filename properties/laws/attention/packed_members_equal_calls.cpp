// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_packed_members_equal_calls {

// Two members, unless there are some already.
Case constrain(Case value) {
  if (!value.cu_q.empty() && chosen_member(value) >= 0) return value;
  if (value.cu_q.empty()) {
    value.paging = {};  // not every kernel that takes pages takes both
    value.append = 0;
  }
  Shape& s = value.shape;
  s.B = 1;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 1);
  value.cu_q = {0, s.Tq / 2, s.Tq};
  value.cu_k = {0, s.Tk / 2, s.Tk};
  return value;
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
    "Members share nothing but memory.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    440,
    Domain{.allows = kAllowWindow | kAllowMask | kAllowPacked | kAllowScores |
                     kAllowMemory,
           .about = kAllowPacked | kAllowPackedPages},
    of_packed_members_equal_calls::constrain,
    plan_member,
    of_packed_members_equal_calls::judge};

}  // namespace qkvet::properties
