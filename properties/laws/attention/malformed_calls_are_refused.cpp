// SPDX-License-Identifier: Apache-2.0
// Tensors that contradict each other, one at a time, contradictory numbers in
// them, and a field that a newer caller may set. None of them has an answer:
// reading on would leave a tensor, mix rows, or omit a requested part.
#include "properties/judging/law.h"
#include "properties/judging/malformed_numbers.h"
#include "properties/judging/refusals.h"

namespace qkvet::properties {
namespace of_malformed_calls_are_refused {

struct Malformed {
  Mistake mistake;
  const char* text;
  bool (*fits)(const Case& value);  // null: every case
};

// With pages, Tk is the extent of a mask or a bias: neither contradicts it.
bool has_mask(const Case& value) {
  return value.mask.kind != MaskKind::kNone && value.paging.size == 0;
}
bool has_bias(const Case& value) {
  return value.score_bias.has_value() && value.paging.size == 0;
}
bool has_slopes(const Case& value) { return value.slopes.has_value(); }
bool has_lists(const Case& value) { return value.listed.entries > 0; }
bool has_list_lengths(const Case& value) { return value.listed.lengths; }
bool has_segments(const Case& value) { return value.fields.segments; }
bool has_ranges(const Case& value) { return value.fields.ranges > 0; }
bool has_tree(const Case& value) { return value.fields.tree; }
bool has_lengths(const Case& value) {
  return !value.q_len.empty() || !value.cu_q.empty();
}

constexpr Malformed kMalformed[] = {
    {Mistake::kKeyWidth, "k with d + 1 channels", nullptr},
    {Mistake::kValueAbsent, "k without v", nullptr},
    {Mistake::kHeads, "v with one head more than k", nullptr},
    {Mistake::kInputRows, "v with one token more than k", nullptr},
    {Mistake::kMaskExtent, "a mask of Tk + 1 keys", has_mask},
    {Mistake::kBiasExtent, "a bias of Tk + 1 keys", has_bias},
    {Mistake::kLengthsExtent, "one length or one start of a member too many",
     has_lengths},
    {Mistake::kUnknownField, "a field that is set behind the known ones",
     nullptr},
    {Mistake::kOffsetsFall,
     "a member of a packed batch that begins behind its "
     "end",
     nullptr},
    {Mistake::kOffsetsStart, "a packed batch that begins at row 1", nullptr},
    {Mistake::kOffsetsEnd, "a packed batch that ends behind the last row",
     nullptr},
    {Mistake::kLengthNegative, "a length of -1", nullptr},
    {Mistake::kLengthBeyond, "a length for which there are no rows", nullptr},
    {Mistake::kLengthsType, "lengths, or starts of members, in f32", nullptr},
    {Mistake::kLengthsRank, "lengths, or starts of members, of two dimensions",
     nullptr},
    {Mistake::kBothForms, "starts of members, and lengths beside them",
     nullptr},
    {Mistake::kPagesFall,
     "a list of pages in which a member begins behind its end", nullptr},
    {Mistake::kPagesStart, "a list of pages that begins at page 1", nullptr},
    {Mistake::kPagesEnd, "a list of pages that ends behind its last entry",
     nullptr},
    {Mistake::kLastPageEmpty, "a last page with no token", nullptr},
    {Mistake::kLastPageBeyond, "a last page with more tokens than slots",
     nullptr},
    {Mistake::kBothTables, "a list of pages, and a block table beside it",
     nullptr},
    {Mistake::kSlopesExtent, "slopes of one head or one member too many",
     has_slopes},
    {Mistake::kKeyListsExtent, "lists of keys of one row too many", has_lists},
    {Mistake::kTopkLengthExtent, "lengths of lists of one row too many",
     has_list_lengths},
    {Mistake::kSegmentsExtent, "segments of one key too many", has_segments},
    {Mistake::kSegmentsAbsent, "segments of the rows and none of the keys",
     has_segments},
    {Mistake::kFullRangesExtent, "ranges of three numbers each", has_ranges},
    {Mistake::kTreeMaskExtent, "a tree of one draft too many", has_tree}};

const char* text_of(Mistake mistake) {
  for (const Malformed& one : kMalformed)
    if (one.mistake == mistake) return one.text;
  return "";
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  for (const Malformed& one : kMalformed) {
    if (one.fits != nullptr && !one.fits(value)) continue;
    if (!can_be_made(one.mistake, value)) continue;
    // A call that is not declared never reaches the kernel.
    if (one.mistake == Mistake::kBothForms &&
        !kernel.has_option(QKVET_OPTION_LENGTHS))
      continue;
    if (one.mistake == Mistake::kBothTables &&
        !kernel.has_option(QKVET_OPTION_PAGED))
      continue;
    PlannedCall call;
    call.mistake = one.mistake;
    call.expects_refusal = true;
    plan.calls.push_back(call);
  }
  if (!kernel.has_flag(QKVET_FLAG_REFUSES_MALFORMED))
    plan.unsupported = "that it refuses malformed calls is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  return judge_refusals(input, text_of);
}

}  // namespace of_malformed_calls_are_refused

extern constinit const Law malformed_calls_are_refused{
    "malformed_calls_are_refused",
    "A kernel that declares it refuses, with a reason, a call with "
    "contradictory tensors (their extents, or the lengths and starts that they "
    "contain) and a call with an unknown field.",
    "widths, heads, tokens, extents, lengths or starts of members that "
    "contradict each other: error",
    "the kernel declares refuses_malformed",
    "Attention is not defined for them.",
    "Nothing is computed.",
    "(c) it reaches error paths, which no legal call enters",
    315,
    Domain{.free_data = false,
           .allows = kAllowPairs | kAllowScores | QKVET_OPTION_PAGED |
                     QKVET_OPTION_ROPE | QKVET_OPTION_KEY_LISTS | kAllowFields},
    as_it_is,
    of_malformed_calls_are_refused::plan,
    of_malformed_calls_are_refused::judge};

}  // namespace qkvet::properties
