// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_tree_branches_equal_sequences {

Case constrain(Case value) {
  return with_mask_of_text(std::move(value), MaskKind::kTreeN,
                           /*any_causal=*/false);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(input, "the branch alone",
                            "a draft sees one that is not on its branch, or "
                            "not all of its branch or of the history");
}

}  // namespace of_tree_branches_equal_sequences

extern constinit const Law tree_branches_equal_sequences{
    "tree_branches_equal_sequences",
    "A branch of a tree of drafts is a sequence: with the history in front it "
    "equals a causal call of that branch alone, its siblings left out.",
    "o[path] = forward(q[path], k[history, path], v[history, path], causal), "
    "siblings at one position",
    "a mask of a tree of drafts, without a window and ALiBi",
    "A draft sees the history, those that it follows, and itself.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    449,
    Domain{.allows = QKVET_OPTION_MASK | QKVET_OPTION_BIAS |
                     QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                     QKVET_OPTION_ROPE | kAllowMemory,
           .about = QKVET_OPTION_MASK},
    of_tree_branches_equal_sequences::constrain,
    plan_masked_parts,
    of_tree_branches_equal_sequences::judge};

}  // namespace qkvet::properties
