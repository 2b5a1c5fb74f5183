// SPDX-License-Identifier: Apache-2.0
// A part of a call as a call of its own: one member of a batch, bounded by
// lengths or packed; or a part of a text that a mask keeps separate: a
// document, a chunk, a range of an image, a prefix, a branch of a tree.
#ifndef QKVET_PROPERTIES_CALLS_MEMBER_PART_H_
#define QKVET_PROPERTIES_CALLS_MEMBER_PART_H_

#include <vector>

#include "properties/calls/call_pairs.h"

namespace qkvet::properties {

// The member that the seed picks, or the next one with queries and keys; -1 if
// there is none.
int64_t chosen_member(const Case& value);

// A packed batch of two members, of the extents that the case has: no more rows
// than before, so that shrinking ends.
Case with_two_members(Case value);

// The case as it is, and its chosen member alone: B = 1, no lengths,
// contiguous, the inputs cut out of those of the case.
Plan plan_member(const Case& value, const KernelInfo& kernel);

// The rows of that member in both calls, each within its own bound.
Judgement judge_member(const JudgeInput& input, CallPair pair);

// Some queries and some keys of one member, in ascending order, and the causal
// rule among them.
struct MaskedPart {
  int64_t b = 0;
  std::vector<int64_t> queries, keys;
  Causal causal = Causal::kNone;
  int64_t member = b;  // also of a packed batch
};

// The part of a text that row i of member b belongs to, if the mask of the case
// follows a text (MaskKind::kPrefixN and the next). If `alone`, a row that
// would need the causal rule within its part is a part by itself (a step of
// decoding).
MaskedPart masked_part(const Case& value, int64_t b, int64_t i, bool alone);

// A case with a mask of that kind, which has rows and keys of its own, and no
// causal rule but the one of the text, unless `any_causal`.
Case with_mask_of_text(Case value, MaskKind kind, bool any_causal);

// The case as it is, and up to three of its parts, each without the mask.
Plan plan_masked_parts(const Case& value, const KernelInfo& kernel);

// The same for a case with masks in a few numbers. The part of each row is the
// row alone with the keys that it sees, the rows and keys of its segment, or
// its path through the tree of drafts. Without these masks and a window.
enum class FieldPart : uint8_t { kNone, kRow, kSegment, kBranch };
Plan plan_field_parts(const Case& value, const KernelInfo& kernel,
                      FieldPart part);

// The rows of the parts, each within its own bound; `part_name` is "the
// document alone".
Judgement judge_masked_parts(const JudgeInput& input, const char* part_name,
                             const char* looks);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_MEMBER_PART_H_
