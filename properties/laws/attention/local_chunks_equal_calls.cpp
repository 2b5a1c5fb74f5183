// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_local_chunks_equal_calls {

Case constrain(Case value) {
  return with_mask_of_text(std::move(value), MaskKind::kChunkN,
                           /*any_causal=*/true);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(input, "the chunk alone",
                            "a chunk begins or ends at another key, or is "
                            "counted from another token");
}

}  // namespace of_local_chunks_equal_calls

extern constinit const Law local_chunks_equal_calls{
    "local_chunks_equal_calls",
    "Local chunks that a mask keeps apart are calls of their own: a row equals "
    "one over the keys of its chunk.",
    "o[i] = forward(q[chunk], k[chunk], v[chunk]), chunk = the n tokens from "
    "floor((i + Tk - Tq) / n) n on",
    "a mask of chunks; the chunk has queries and keys",
    "A row sees keys of its chunk alone, and what it counts from its diagonal "
    "is the same there.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    444,
    Domain{.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW | kAllowScores |
                     QKVET_OPTION_ROPE | kAllowMemory,
           .about = QKVET_OPTION_MASK},
    of_local_chunks_equal_calls::constrain,
    plan_masked_parts,
    of_local_chunks_equal_calls::judge};

}  // namespace qkvet::properties
