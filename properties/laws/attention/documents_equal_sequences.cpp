// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/member_part.h"

namespace qkvet::properties {
namespace of_documents_equal_sequences {

Case constrain(Case value) {
  return with_mask_of_text(std::move(value), MaskKind::kDocsN,
                           /*any_causal=*/true);
}

Judgement judge(const JudgeInput& input) {
  return judge_masked_parts(
      input, "the document alone",
      "a document sees the one before it or behind it, or not all of its own");
}

}  // namespace of_documents_equal_sequences

extern constinit const Law documents_equal_sequences{
    "documents_equal_sequences",
    "Documents of one text that a mask keeps apart are sequences of their own: "
    "each equals a call of that document alone.",
    "o[i in doc] = forward(q[doc], k[doc], v[doc]), with the causal rule and "
    "the window of the call",
    "a mask of documents; the document has queries and keys",
    "A row sees keys of its document alone, and what it counts from its "
    "diagonal is the same there.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    442,
    Domain{.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW | kAllowScores |
                     QKVET_OPTION_ROPE | kAllowMemory,
           .about = QKVET_OPTION_MASK},
    of_documents_equal_sequences::constrain,
    plan_masked_parts,
    of_documents_equal_sequences::judge};

}  // namespace qkvet::properties
