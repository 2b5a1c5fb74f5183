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

// For relations. The second call is the chosen member alone: B = 1, no lengths,
// contiguous, the inputs cut out of those of the case; and its rows in it.
void plan_member(const Case& value, const KernelInfo& kernel, Plan& plan);
void rows_of_member(const JudgeInput& input, CallPair& pair);

// For relations. The further calls are the chosen member alone and four times,
// in a batch of the same form; and the rows of the last copy in them. For a
// kernel that claims batch_mates_invariant.
void plan_mates(const Case& value, const KernelInfo& kernel, Plan& plan);
void rows_among_copies(const JudgeInput& input, CallPair& pair);

// A case with a mask of that kind, which follows a text (MaskKind::kPrefixN and
// the next), and has rows and keys of its own, and no
// causal rule but the one of the text, unless `any_causal`.
Case with_mask_of_text(Case value, MaskKind kind, bool any_causal);

// For relations. The further calls are up to three parts of the case, each
// without the mask. The part of each row is, for a case with masks in a few
// numbers, the row alone with the keys that it sees, the rows and keys of its
// segment, or its path through the tree of drafts: without these masks and a
// window.
enum class FieldPart : uint8_t { kNone, kRow, kSegment, kBranch };
void plan_parts(const Case& value, const KernelInfo& kernel, FieldPart of,
                Plan& plan);
template <FieldPart of>
void plan_parts_of(const Case& value, const KernelInfo& kernel, Plan& plan) {
  plan_parts(value, kernel, of, plan);
}
// The rows of the part in its call.
void rows_of_part(const JudgeInput& input, CallPair& pair);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_MEMBER_PART_H_
