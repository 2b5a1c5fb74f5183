// SPDX-License-Identifier: Apache-2.0
// The same numbers in other memory: layouts, views, types of lengths, the place
// of a result.
#include <algorithm>

#include "properties/calls/merge_calls.h"
#include "properties/calls/option_forms.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_storage {

// Tensors end at a guard page, so another layout has another alignment: both
// calls are aligned to 64 bytes, unless the kernel also claims that alignment
// changes nothing.
void aligned_alike(const Case&, const KernelInfo& kernel, Plan& plan) {
  if (!claims_same_bits(kernel, QKVET_FLAG_LAYOUT_INVARIANT) ||
      kernel.has_flag(QKVET_FLAG_ALIGNMENT_INVARIANT))
    return;
  for (PlannedCall& call : plan.calls) call.placement = Placement::kEndAligned;
}

// ---- Layouts

Case with_strides(Case value) {
  if (value.layout == Layout::kBhtd && value.share == 0)
    value.layout = Layout::kBthd;
  return value;
}

void contiguous(Case& value) {
  value.layout = Layout::kBhtd;
  value.share = 0;
}

// An assumed stride is that of contiguous tensors: if those are wrong, too, it
// is another mistake.
void only_if_contiguous_is_right(const JudgeInput& input, CallPair& pair) {
  const CallView& contiguous = input.calls[1];
  if (contiguous.truth == nullptr) return;  // bits are compared
  Judgement judgement;
  compare_with_truth(input, contiguous, TensorName::kO, judgement);
  if (judgement.verdict != Verdict::kPassed) pair.looks = "";
}

// ---- Masks and biases that are broadcast

// One for all members and heads, as masks and biases are mostly given.
constexpr uint8_t kOwnPairs = kOwnQ | kOwnK;

Case with_broadcast(Case value) {
  const bool has_mask = value.mask.kind != MaskKind::kNone;
  if (has_mask && value.mask.own != kOwnAll) return value;
  if (value.score_bias && value.score_bias_own != kOwnAll) return value;
  if (has_mask)
    value.mask.own = kOwnPairs;
  else if (value.score_bias)
    value.score_bias_own = kOwnPairs;
  else
    value.mask = {MaskKind::kButN, 0, kOwnPairs};
  return value;
}

void of_full_extents(Case& value) {
  value.mask.own = kOwnAll;
  value.score_bias_own = kOwnAll;
}

void write_out(const Case& value, int64_t, Inputs& inputs) {
  inputs.mask = full_mask(value, inputs);
  inputs.bias = full_bias(value, inputs);
}

// ---- Values that are the first channels of the keys

Case with_values_in_keys(Case value) {
  value.values_in_keys = true;
  value.shape.dv = std::min(value.shape.dv, value.shape.d);
  return value;
}

void copy_values(const Case& value, int64_t, Inputs& inputs) {
  const int64_t d = value.shape.d, dv = value.shape.dv;
  for (size_t row = 0; d > 0 && row < inputs.k.size() / static_cast<size_t>(d);
       ++row) {
    const auto from = inputs.k.begin() + static_cast<int64_t>(row) * d;
    std::copy_n(from, dv, inputs.v.begin() + static_cast<int64_t>(row) * dv);
  }
}

void takes_own_values(const Case&, const KernelInfo& kernel, Plan& plan) {
  if (kernel.has_flag(QKVET_FLAG_VALUES_IN_KEYS_ONLY))
    plan.unsupported = "values apart from keys are not declared";
}

// ---- Lengths and starts of members, in int32 and in int64

// Whether a member has a row and a key: without them there is nothing to
// compare.
bool has_any(const Case& value) {
  if (!value.cu_q.empty()) return true;
  for (size_t b = 0; b < static_cast<size_t>(value.shape.B); ++b)
    if ((value.q_len.empty() || value.q_len[b] > 0) &&
        (value.kv_len.empty() || value.kv_len[b] > 0))
      return true;
  return false;
}

// If a case has no such numbers, it gets the lengths of two members: the second
// shows whether the first was read with the right width.
Case with_int32_lengths(Case value) {
  if (!gives_lengths(value)) {
    Shape& s = value.shape;
    s.B = std::clamp<int64_t>(s.B, 2, static_cast<int64_t>(kMaxMembers));
    // With lists of pages there are no lengths of keys.
    const bool of_queries = value.paging.table == PageTable::kCsr;
    std::vector<int64_t>& lengths = of_queries ? value.q_len : value.kv_len;
    lengths.clear();
    for (int64_t b = 0; b < s.B; ++b)
      lengths.push_back(std::max<int64_t>((of_queries ? s.Tq : s.Tk) - b, 0));
  }
  if (!has_any(value)) {  // the fewest, so that shrinking ends
    const Shape& s = value.shape;
    if (!value.q_len.empty()) value.q_len.back() = std::min<int64_t>(1, s.Tq);
    if (!value.kv_len.empty())
      value.kv_len.back() = std::min(std::max<int64_t>(1, value.append), s.Tk);
  }
  value.int32_lengths = true;
  return value;
}

// ---- Merges

Case with_strided_states(Case value) {
  value = constrain_merge(std::move(value), 2);
  if (value.layout == Layout::kBhtd) value.layout = Layout::kBthd;
  return value;
}

Case with_results_as_states(Case value) {
  value = constrain_merge(std::move(value), 2);
  value.o_dtype = value.kv_dtype;
  return value;
}

void in_place(const Case&, const KernelInfo&, Plan& plan) {
  plan.calls[1].in_place = true;
}

Case with_ragged_rows(Case value) {
  value = constrain_merge(std::move(value), 2);
  if (!value.kv_len.empty()) return value;
  Shape& s = value.shape;
  s.B = std::min<int64_t>(s.B, kMaxMembers);
  for (int64_t t = 0; t < s.B; ++t)
    value.kv_len.push_back((t + static_cast<int64_t>(value.seed % 7)) %
                           (s.Tk + 1));
  return value;
}

// Missing states of a row become empty ones.
void pad_rows(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    for (int64_t n = counted_keys(value, t); n < s.Tk; ++n) {
      const int64_t at = place_of_state(s, t, h, n);
      inputs.bias[static_cast<size_t>(at)] = kEmptyLse;
      std::fill_n(inputs.v.begin() + at * s.dv, s.dv, 1.0);
    }
  });
}

constexpr Law kRows[] = {
    {.id = "layout_changes_nothing",
     .sentence = "The layout of tensors in memory changes nothing.",
     .formula = "forward(strided q, k, v) = forward(contiguous q, k, v)",
     .precondition =
         "another layout than contiguous [B,H,T,d], or k and v that are shared",
     .reason = "Both have the same value at every index.",
     .rounding = kLayoutInvariant,
     .kept_for = kPathsWithoutOracle,
     .rank = 410,
     .domain = {.allows = kAllowListsAndFields,
                .about = kOptionLayout | kOptionShare},
     .constrain = with_strides,
     .relation = {.first = "as they lie",
                  .second = "contiguous [B,H,T,d]",
                  .looks = "a stride is assumed and not read",
                  .variant = contiguous,
                  .claim = QKVET_FLAG_LAYOUT_INVARIANT,
                  .more_plan = aligned_alike,
                  .pair = only_if_contiguous_is_right}},
    {.id = "broadcast_equals_materialised",
     .sentence =
         "A mask or a bias that is broadcast equals the same written out.",
     .formula = "forward(mask, strides of 0) = forward(mask [B,H,Tq,Tk]), the "
                "same for a bias",
     .precondition = "a mask or a bias with extents that are broadcast",
     .reason = "Both have the same value at every pair.",
     .rounding = kLayoutInvariant,
     .kept_for = kPathsWithoutOracle,
     .rank = 400,
     .domain = {.allows = kAllowAll,
                .about = QKVET_OPTION_MASK | QKVET_OPTION_BIAS},
     .constrain = with_broadcast,
     .relation = {.first = "broadcast",
                  .second = "written out",
                  .looks = "a stride of 0 is not followed",
                  .variant = of_full_extents,
                  .edit = write_out,
                  .claim = QKVET_FLAG_LAYOUT_INVARIANT,
                  .more_plan = aligned_alike}},
    {.id = "values_in_keys_equal_own_values",
     .sentence = "Values that are the first channels of the keys are values as "
                 "any others.",
     .formula = "forward(q, k, k[.., :dv]) = forward(q, k, copy of k[.., :dv])",
     .precondition = "values in keys declared, dv <= d",
     .reason =
         "Attention reads numbers, and asks of none where else it stands.",
     .rounding = "Each side is within its own bound of the same number; never "
                 "bitwise: strides may choose the path.",
     .kept_for = kPathsWithoutOracle,
     .rank = 454,
     .domain = {.allows = kAllowListsAndFields,
                .about = QKVET_OPTION_VALUES_IN_KEYS},
     .constrain = with_values_in_keys,
     .relation =
         {.first = "values that lie in the keys",
          .second = "the same values apart from them",
          .looks =
              "channel c of a value is not read at channel c of its key: a row "
              "is as long as a key, and its values are the first dv of it",
          .variant = [](Case& value) { value.values_in_keys = false; },
          .edit = copy_values,
          .more_plan = takes_own_values}},
    {.id = "int32_lengths_change_nothing",
     .sentence = "Whether lengths and starts of members are int32 or int64 "
                 "changes nothing.",
     .formula = "forward(int32 lengths) = forward(int64 lengths)",
     .precondition =
         "lengths or starts of members, and int32 declared for them",
     .reason = "They are the same numbers.",
     .rounding = kNeverBitwise,
     .kept_for = kPathAgainstPath,
     .rank = 435,
     .domain = {.allows = kAllowListsAndFields,
                .about = QKVET_OPTION_INT32_LENGTHS},
     .constrain = with_int32_lengths,
     .relation = {.first = "lengths in int32",
                  .second = "in int64",
                  .looks = "numbers are read in another width than they have",
                  .variant = [](Case& value) { value.int32_lengths = false; }}},
    {.id = "layout_of_states_changes_nothing",
     .sentence = "The places of states, their lse and the outputs in memory "
                 "change nothing.",
     .formula = "merge in any layout = merge of contiguous tensors",
     .precondition = "two states; another layout than the contiguous one",
     .reason = "A layout is no part of the definition.",
     .rounding = "The same bits where that is declared (layout_invariant), "
                 "else each within its own bound.",
     .kept_for = "(a) it is bitwise where claimed, (d) it needs no oracle",
     .rank = 90,
     .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
     .constrain = with_strided_states,
     .relation = {.first = "in this layout",
                  .second = "contiguous",
                  .looks = "a stride of lse, of states or of o is not heeded",
                  .variant = [](Case& value) { value.layout = Layout::kBhtd; },
                  .claim = QKVET_FLAG_LAYOUT_INVARIANT}},
    {.id = "merge_in_place_equals_out_of_place",
     .sentence = "A merge in place is the merge into other memory.",
     .formula = "merge_in_place(a; b) = merge(a, b)",
     .precondition =
         "two states; as many of every row; o is stored as states are",
     .reason = "The place of the result is no part of the definition.",
     .rounding = "Each side is within its own bound of the same number: the "
                 "paths may differ.",
     .kept_for =
         "(c) it reaches calls that no other law makes, (d) it needs no oracle",
     .rank = 100,
     .domain = {.subject = Subject::kMerge, .allows = kAllowMerge},
     .constrain = with_results_as_states,
     .relation = {.first = "into other memory",
                  .second = "in place",
                  .looks = "the first state is overwritten before it is read",
                  .more_plan = in_place}},
    {.id = "ragged_rows_equal_padded_rows",
     .sentence = "Fewer states in a row equal empty states instead of the "
                 "missing ones.",
     .formula =
         "merge(states, indptr) = merge(states filled up with (1, -inf))",
     .precondition = "two states of the longest row",
     .reason = "An empty state counts nothing.",
     .rounding = kNeverBitwise,
     .kept_for = "(c) it sets two forms of a call against each other, (d) it "
                 "needs no oracle",
     .rank = 80,
     .domain = {.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
     .constrain = with_ragged_rows,
     .relation = {.first = "a number of states for each row",
                  .second = "rows filled up with empty states",
                  .looks =
                      "a row takes states of another one, or leaves some out",
                  .variant = [](Case& value) { value.kv_len.clear(); },
                  .edit = pad_rows}},
};

}  // namespace of_storage

extern constinit const LawTable storage_laws{of_storage::kRows};

}  // namespace qkvet::properties
