// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_ranges_equal_blocks {

Case constrain(Case value) {
  return with_mask_of_text(std::move(value), MaskKind::kRangesN,
                           /*any_causal=*/false);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(
      input, "the range alone",
      "a range is cut off, or sees another one that is ahead");
}

}  // namespace of_ranges_equal_blocks

extern constinit const Law ranges_equal_blocks{
    "ranges_equal_blocks",
    "Ranges that a mask shows both ways within a causal text (the tokens of an "
    "image) are calls without a mask over all keys up to their end, and ranges "
    "of plain text are causal ones.",
    "o[i in range] = forward(q[range], k[< end], v[< end])",
    "a mask of ranges; the range has queries",
    "Ahead of a row the mask shows the rest of its range, if the range is seen "
    "both ways.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    448,
    Domain{.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW | kAllowScores |
                     QKVET_OPTION_ROPE | kAllowMemory,
           .about = QKVET_OPTION_MASK},
    of_ranges_equal_blocks::constrain,
    plan_masked_parts,
    of_ranges_equal_blocks::judge};

}  // namespace qkvet::properties
