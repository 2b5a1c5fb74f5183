// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_prefix_equals_two_calls {

Case constrain(Case value) {
  return with_mask_of_text(std::move(value), MaskKind::kPrefixN,
                           /*any_causal=*/false);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(
      input, "the part alone",
      "the prefix ends at another key, or is hidden from its own rows");
}

}  // namespace of_prefix_equals_two_calls

extern constinit const Law prefix_equals_two_calls{
    "prefix_equals_two_calls",
    "A prefix that a mask shows to all rows is a call without a mask, and what "
    "follows it is a causal one.",
    "o[i in prefix] = forward(q[prefix], k[< n], v[< n]), o[i after it] = "
    "forward(q[i], k[<= i + Tk - Tq], v[<= i + Tk - Tq])",
    "a mask of a prefix",
    "Rows of the prefix see exactly the prefix, the others see what is not "
    "ahead.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    446,
    Domain{.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW | kAllowScores |
                     QKVET_OPTION_ROPE | kAllowMemory,
           .about = QKVET_OPTION_MASK},
    of_prefix_equals_two_calls::constrain,
    plan_masked_parts,
    of_prefix_equals_two_calls::judge};

}  // namespace qkvet::properties
