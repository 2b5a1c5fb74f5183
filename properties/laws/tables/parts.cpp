// SPDX-License-Identifier: Apache-2.0
// A part of a call is a call of its own: a member of a batch, or a part of a
// text that a mask keeps apart.
#include <algorithm>

#include "properties/calls/member_part.h"
#include "properties/calls/option_forms.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_parts {

template <MaskKind kind, bool any_causal>
Case with_text(Case value) {
  return with_mask_of_text(std::move(value), kind, any_causal);
}

Case with_short_member(Case value) {
  const auto members = static_cast<size_t>(value.shape.B);
  const bool absent = value.q_len.empty() && value.kv_len.empty();
  if (absent && members <= kMaxMembers)
    value.kv_len.assign(members, (value.shape.Tk + 1) / 2);
  if (chosen_member(value) >= 0) return value;
  // The least that there can be: shrinking ends there.
  if (!value.q_len.empty()) value.q_len[0] = 1;
  if (!value.kv_len.empty()) value.kv_len[0] = 1;
  return value;
}

// Two members at least, of a batch or of a packed one.
Case with_member_slopes(Case value) {
  if (!value.slopes) value.slopes = Recipe{};
  value.member_slopes = true;
  if (!value.cu_q.empty() || value.shape.B > 1) return value;
  value.shape.B = 2;
  value.q_len.clear();
  value.kv_len.clear();
  return value;
}

Case with_packed_member(Case value) {
  return !value.cu_q.empty() && chosen_member(value) >= 0
             ? value
             : with_two_members(value);
}

// A segment may be in several pieces: no rule that counts positions holds.
Case with_segments(Case value) {
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (!value.fields.segments) {
    value.fields.segments = true;
    value.fields.tokens = 2;
  }
  value.fields.segments_from_file = false;
  value.causal = Causal::kNone;
  return value;
}

Case with_tree(Case value) {
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 2);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (!value.fields.tree) {
    value.fields.tree = true;
    value.fields.children = 2;
  }
  value.fields.tree_from_file = false;
  value.causal = Causal::kNone;
  return value;
}

constexpr Law kRows[] = {
    {.id = "member_slopes_equal_calls",
     .sentence = "A batch member with ALiBi slopes of its own is what it is "
                 "alone with these.",
     .formula =
         "forward(slopes [B,H])[b] = forward(q[b], k[b], v[b], slopes[b] [H])",
     .precondition =
         "ALiBi with slopes of each member; the member has queries and keys",
     .reason = "Members share nothing, and the slopes of one are those of a "
               "call about it alone.",
     .rounding = kNeverBitwise,
     .kept_for = "(c) it sets one form of the slopes against the other, (d) it "
                 "needs no oracle",
     .rank = 415,
     .domain = {.allows = kAllowPairs | kAllowScores | kAllowMemory,
                .about = QKVET_OPTION_ALIBI_PER_MEMBER},
     .constrain = with_member_slopes,
     .relation =
         {.first = "with slopes of each member",
          .second = "the member alone, with its slopes",
          .looks = "a member has the slopes of another one, or of other heads",
          .more_plan = plan_member,
          .pair = rows_of_member}},
    {.id = "lengths_equal_shorter_call",
     .sentence = "A member with lengths equals a call that is as short.",
     .formula = "o[b, i < Lq] = forward(q[b, < Lq], k[b, < Lk], v[b, < Lk])",
     .precondition = "lengths of a member with queries and keys",
     .reason = "Elements beyond the lengths are not part of the call, and the "
               "diagonal is counted from the lengths.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 430,
     .domain = {.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
                          QKVET_OPTION_LENGTHS | kAllowScores | kAllowMemory,
                .about = QKVET_OPTION_LENGTHS},
     .constrain = with_short_member,
     .relation =
         {.first = "with lengths",
          .second = "in a call that is as short",
          .looks =
              "a length moves the diagonal wrongly, or does not end the keys",
          .more_plan = plan_member,
          .pair = rows_of_member}},
    {.id = "packed_members_equal_calls",
     .sentence = "A member of a packed batch equals a call of its own.",
     .formula = "o[cu_q[m] .. cu_q[m+1]) = forward(rows of q, k and v of "
                "member m); in pages, that member alone in the same pages",
     .precondition = "a packed batch; the member has queries and keys",
     .reason = "Sequences share only memory.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 440,
     .domain = {.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
                          QKVET_OPTION_PACKED | kAllowScores | kAllowMemory,
                .about = QKVET_OPTION_PACKED | QKVET_OPTION_PACKED_PAGES},
     .constrain = with_packed_member,
     .relation =
         {.first = "in a packed batch",
          .second = "in a call of its own",
          .looks =
              "a member begins or ends at another place, or sees another one",
          .more_plan = plan_member,
          .pair = rows_of_member}},
    {.id = "documents_equal_sequences",
     .sentence = "Documents of one text that a mask keeps apart are sequences "
                 "of their own: each equals a call of that document alone.",
     .formula = "o[i in doc] = forward(q[doc], k[doc], v[doc]), with the "
                "causal rule and the window of the call",
     .precondition = "a mask of documents; the document has queries and keys",
     .reason = "A row sees keys of its document alone, and what it counts from "
               "its diagonal is the same there.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 442,
     .domain = {.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW |
                          kAllowScores | QKVET_OPTION_ROPE | kAllowMemory,
                .about = QKVET_OPTION_MASK},
     .constrain = with_text<MaskKind::kDocsN, /*any_causal=*/true>,
     .relation = {.first = "in the whole call",
                  .second = "the document alone",
                  .looks = "a document sees the one before it or behind it, or "
                           "not all of its own",
                  .more_plan = plan_parts_of<FieldPart::kNone>,
                  .pair = rows_of_part}},
    {.id = "local_chunks_equal_calls",
     .sentence = "Local chunks that a mask keeps apart are calls of their own: "
                 "a row equals one over the keys of its chunk.",
     .formula = "o[i] = forward(q[chunk], k[chunk], v[chunk]), chunk = the n "
                "tokens from floor((i + Tk - Tq) / n) n on",
     .precondition = "a mask of chunks; the chunk has queries and keys",
     .reason = "A row sees keys of its chunk alone, and what it counts from "
               "its diagonal is the same there.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 444,
     .domain = {.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW |
                          kAllowScores | QKVET_OPTION_ROPE | kAllowMemory,
                .about = QKVET_OPTION_MASK},
     .constrain = with_text<MaskKind::kChunkN, /*any_causal=*/true>,
     .relation = {.first = "in the whole call",
                  .second = "the chunk alone",
                  .looks = "a chunk begins or ends at another key, or is "
                           "counted from another token",
                  .more_plan = plan_parts_of<FieldPart::kNone>,
                  .pair = rows_of_part}},
    {.id = "prefix_equals_two_calls",
     .sentence = "A prefix that a mask shows to all rows is a call without a "
                 "mask, and what follows it is a causal one.",
     .formula =
         "o[i in prefix] = forward(q[prefix], k[< n], v[< n]), o[i after it] = "
         "forward(q[i], k[<= i + Tk - Tq], v[<= i + Tk - Tq])",
     .precondition = "a mask of a prefix",
     .reason = "Rows of the prefix see exactly the prefix, the others see what "
               "is not ahead.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 446,
     .domain = {.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW |
                          kAllowScores | QKVET_OPTION_ROPE | kAllowMemory,
                .about = QKVET_OPTION_MASK},
     .constrain = with_text<MaskKind::kPrefixN, /*any_causal=*/false>,
     .relation =
         {.first = "in the whole call",
          .second = "the part alone",
          .looks =
              "the prefix ends at another key, or is hidden from its own rows",
          .more_plan = plan_parts_of<FieldPart::kNone>,
          .pair = rows_of_part}},
    {.id = "ranges_equal_blocks",
     .sentence = "Ranges that a mask shows both ways within a causal text (the "
                 "tokens of an image) are calls without a mask over all keys "
                 "up to their end, and ranges of plain text are causal ones.",
     .formula = "o[i in range] = forward(q[range], k[< end], v[< end])",
     .precondition = "a mask of ranges; the range has queries",
     .reason = "Ahead of a row the mask shows the rest of its range, if the "
               "range is seen both ways.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 448,
     .domain = {.allows = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW |
                          kAllowScores | QKVET_OPTION_ROPE | kAllowMemory,
                .about = QKVET_OPTION_MASK},
     .constrain = with_text<MaskKind::kRangesN, /*any_causal=*/false>,
     .relation = {.first = "in the whole call",
                  .second = "the range alone",
                  .looks =
                      "a range is cut off, or sees another one that is ahead",
                  .more_plan = plan_parts_of<FieldPart::kNone>,
                  .pair = rows_of_part}},
    {.id = "tree_branches_equal_sequences",
     .sentence = "A branch of a tree of drafts is a sequence: with the history "
                 "in front it equals a causal call of that branch alone, its "
                 "siblings left out.",
     .formula = "o[path] = forward(q[path], k[history, path], v[history, "
                "path], causal), siblings at one position",
     .precondition = "a mask of a tree of drafts, without a window and ALiBi",
     .reason = "A draft sees the history, those that it follows, and itself.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 449,
     .domain = {.allows = QKVET_OPTION_MASK | QKVET_OPTION_BIAS |
                          QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                          QKVET_OPTION_ROPE | kAllowMemory,
                .about = QKVET_OPTION_MASK},
     .constrain = with_text<MaskKind::kTreeN, /*any_causal=*/false>,
     .relation = {.first = "in the whole call",
                  .second = "the branch alone",
                  .looks = "a draft sees one that is not on its branch, or not "
                           "all of its branch or of the history",
                  .more_plan = plan_parts_of<FieldPart::kNone>,
                  .pair = rows_of_part}},
    {.id = "mask_fields_equal_rows_alone",
     .sentence =
         "A row that segments, ranges, a chunk or a tree of drafts leave some "
         "keys equals a call of that row over those keys, without any of them.",
     .formula = "o[i] = forward(q[i], k[seen by i], v[seen by i])",
     .precondition = "segments, ranges, a chunk or a tree; some row sees a key",
     .reason = "Hidden keys do not occur in the formula of a row; how ranges "
               "and a window go together is the dialect's ranges_and_window.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 352,
     .domain = {.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
                          QKVET_OPTION_PACKED | QKVET_OPTION_BIAS |
                          QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                          QKVET_OPTION_ROPE | kAllowMemory | kAllowFields,
                .about = kAllowFields},
     .constrain = with_mask_fields,
     .relation = {.first = "in the whole call",
                  .second = "the row alone, over the keys that it sees",
                  .looks = "a row sees other keys than segments, ranges, chunk "
                           "or tree leave it",
                  .more_plan = plan_parts_of<FieldPart::kRow>,
                  .pair = rows_of_part}},
    {.id = "segments_equal_sequences",
     .sentence = "Segments are sequences of their own: each equals a call of "
                 "the rows and keys that have its number.",
     .formula =
         "o[i in s] = forward(q[s], k[s], v[s]), s = the places of one number",
     .precondition = "segments, one of which has rows and keys",
     .reason = "A row sees the keys of its number alone, wherever they lie.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 353,
     .domain = {.allows = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                          QKVET_OPTION_SINK | QKVET_OPTION_ROPE |
                          QKVET_OPTION_LENGTHS | kOptionLayout | kOptionShare |
                          QKVET_OPTION_APPEND | QKVET_OPTION_SEGMENTS,
                .about = QKVET_OPTION_SEGMENTS},
     .constrain = with_segments,
     .relation =
         {.first = "in the whole call",
          .second = "the segment alone",
          .looks = "a segment sees keys of another one, or not all of its own",
          .more_plan = plan_parts_of<FieldPart::kSegment>,
          .pair = rows_of_part}},
    {.id = "tree_paths_equal_sequences",
     .sentence = "A path through the tree of drafts in tree_mask is a "
                 "sequence: after the history it equals a causal call of that "
                 "path alone, without its siblings.",
     .formula = "o[path] = forward(q[path], k[history, path], v[history, "
                "path], causal), siblings at one position",
     .precondition =
         "a tree of drafts after a history, without a window and ALiBi",
     .reason = "A draft sees the history, those that it follows, and itself.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 354,
     .domain = {.allows = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                          QKVET_OPTION_SINK | QKVET_OPTION_ROPE |
                          QKVET_OPTION_LENGTHS | kAllowMemory |
                          QKVET_OPTION_TREE_MASK,
                .about = QKVET_OPTION_TREE_MASK},
     .constrain = with_tree,
     .relation = {.first = "in the whole call",
                  .second = "the branch alone",
                  .looks = "a draft sees one that is not on its branch, or not "
                           "all of its branch or of the history",
                  .more_plan = plan_parts_of<FieldPart::kBranch>,
                  .pair = rows_of_part}},

};

}  // namespace of_parts

extern constinit const LawTable parts_laws{of_parts::kRows};

}  // namespace qkvet::properties
