// SPDX-License-Identifier: Apache-2.0
// A member with ALiBi slopes of its own, and the same member alone, with its
// slopes as those of the call.
#include <algorithm>

#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_member_slopes_equal_calls {

// Two members at least, of a batch or of a packed one.
Case constrain(Case value) {
  if (!value.slopes) value.slopes = Recipe{};
  value.member_slopes = true;
  if (!value.cu_q.empty() || value.shape.B > 1) return value;
  value.shape.B = 2;
  value.q_len.clear();
  value.kv_len.clear();
  return value;
}

Judgement judge(const JudgeInput& input) {
  CallPair pair;
  pair.first_name = "with slopes of each member";
  pair.second_name = "the member alone, with its slopes";
  pair.looks = "a member has the slopes of another one, or of other heads";
  return judge_member(input, pair);
}

}  // namespace of_member_slopes_equal_calls

extern constinit const Law member_slopes_equal_calls{
    "member_slopes_equal_calls",
    "A batch member with ALiBi slopes of its own is what it is alone with "
    "these.",
    "forward(slopes [B,H])[b] = forward(q[b], k[b], v[b], slopes[b] [H])",
    "ALiBi with slopes of each member; the member has queries and keys",
    "Members share nothing, and the slopes of one are those of a call about it "
    "alone.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one form of the slopes against the other, (d) it needs no "
    "oracle",
    415,
    Domain{.allows = kAllowPairs | kAllowScores | kAllowMemory,
           .about = QKVET_OPTION_ALIBI_PER_MEMBER},
    of_member_slopes_equal_calls::constrain,
    plan_member,
    of_member_slopes_equal_calls::judge};

}  // namespace qkvet::properties
