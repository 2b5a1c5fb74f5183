// SPDX-License-Identifier: Apache-2.0
// Faults in merges of attention states.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numbers>

#include "impl/abi/half.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {

// A natural lse is taken for one in base 2.
struct MergeWrongBase : PlainMerge {
  static float weight(float lse, float max) { return std::exp2(lse - max); }
};
QKVET_FAULT(merge_wrong_base) = {
    .kernel = merge_fault<MergeWrongBase>,
    .mechanism = "weights are 2^(lse - m) where lse is natural",
    .symptom =
        "the part with the smaller lse weighs too much, o is off by up "
        "to half of what the parts differ in, and lse with it",
    .cause =
        "one backend returns lse in base 2 and the merge of another one "
        "reads it as natural, or the other way round",
    .fix = "convert once where a backend is entered: natural = base 2 * ln 2",
    .source =
        "vllm-project/vllm#28840, vllm-project/vllm#47079, "
        "sgl-project/sglang#33064, sgl-project/sglang#40903",
    .trigger = "two states of different lse",
    .killed_by = {"merge_agrees_with_oracle"},
    .when = "Tk > 1",
};

// The logarithm alone is in base 2.
struct MergeLseInBase2 : PlainMerge {
  static float merged_lse(float max, float sum, int64_t) {
    return max + std::log2(sum);
  }
};
QKVET_FAULT(merge_lse_in_base2) = {
    .kernel = merge_fault<MergeLseInBase2>,
    .mechanism = "the merged lse is m + log2 of the sum where log belongs",
    .symptom =
        "o is right; lse is too large, and whoever merges once more "
        "weighs this part too much",
    .cause = "log2f is the fast one on GPUs, and the factor ln 2 was forgotten",
    .fix = "multiply the logarithm by ln 2, or count everything in base 2",
    .source = "vllm-project/vllm#28840",
    .trigger = "two states of like lse",
    .killed_by = {"equal_states_keep_o_and_add_up",
                  "merge_of_parts_is_the_whole", "merge_agrees_with_oracle"},
    .when = "Tk > 1",
};

// An empty row counts as infinitely heavy.
struct MergeEmptyIsPlusInf : PlainMerge {
  static float empty_lse() { return std::numeric_limits<float>::infinity(); }
};
QKVET_FAULT(merge_empty_is_plus_inf) = {
    .kernel = merge_fault<MergeEmptyIsPlusInf>,
    .mechanism = "a row whose states are all empty gets lse = +inf",
    .symptom =
        "o of this call is right, and the next merge takes the empty row "
        "for the only one that counts",
    .cause =
        "some attention kernels return +inf for rows that see no key, and "
        "the convention is carried on",
    .fix = "write -infinity, the logarithm of nothing",
    .source = "textbook, cf. vllm-project/vllm#39148",
    .trigger = "a row whose states are all empty",
    .killed_by = {"merge_of_empty_states_is_empty"},
    .when = "",
};

// -inf - (-inf).
struct MergeEmptyIsNan : PlainMerge {
  static bool is_empty(float) { return false; }
};
QKVET_FAULT(merge_empty_is_nan) = {
    .kernel = merge_fault<MergeEmptyIsNan>,
    .mechanism = "exp(lse - m) is taken where both are -inf",
    .symptom = "a row whose states are all empty is NaN",
    .cause = "the maximum of a row is taken to be finite",
    .fix = "where m = -inf write o = 0 and lse = -inf",
    .source = "flashinfer-ai/flashinfer#4051, vllm-project/vllm#39148",
    .trigger = "a row whose states are all empty",
    .killed_by = {"merge_of_empty_states_is_empty"},
    .when = "",
};

// Exponentials of what they are.
struct MergeNoMaximum : PlainMerge {
  static float maximum(const float* lse, int64_t count) {
    return PlainMerge::maximum(lse, count) == kNone ? kNone : 0;
  }
};
QKVET_FAULT(merge_no_maximum) = {
    .kernel = merge_fault<MergeNoMaximum>,
    .mechanism = "weights are exp(lse), no maximum is subtracted",
    .symptom =
        "right for small lse; infinity over infinity above 88, and 0 "
        "over 0 below -103",
    .cause = "lse is taken to be small, as it is in tests with random data",
    .fix = "subtract the largest lse of the row from all of them",
    .source = "textbook",
    .trigger = "lse beyond the range of an exponential",
    .killed_by = {"a_dominating_state_wins", "merge_agrees_with_oracle"},
    .when = "",
};

// Every lse is kept in f16.
struct MergeLseInHalf : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    return f16_to_f32(f32_to_f16(call.state_lse(t, n, h)));
  }
};
QKVET_FAULT(merge_lse_in_half) = {
    .kernel = merge_fault<MergeLseInHalf>,
    .mechanism = "every lse is rounded to f16 before it is used",
    .symptom =
        "lse is off by up to 2^-11 of itself, and weights by as much "
        "times lse",
    .cause = "lse is stored as the states are, in half",
    .fix = "keep every lse in f32",
    .source = "textbook",
    .trigger = "an lse that f16 does not hold",
    .killed_by = {"empty_states_change_nothing", "a_dominating_state_wins",
                  "equal_states_keep_o_and_add_up", "merge_agrees_with_oracle"},
    .when = "",
};

// The weight of one is another's.
struct MergeWeightsOfTheOther : PlainMerge {
  static float weight_of(const float* weights, int64_t n, int64_t count) {
    return weights[count - 1 - n];
  }
};
QKVET_FAULT(merge_weights_of_the_other) = {
    .kernel = merge_fault<MergeWeightsOfTheOther>,
    .mechanism = "the first state has the weight of the last one, and so on",
    .symptom = "lse is right; o is nearer to the part that counts less",
    .cause = "two arguments of like names change places",
    .fix = "state n has the weight exp(lse_n - m)",
    .source = "textbook",
    .trigger = "two states of different lse",
    .killed_by = {"empty_states_change_nothing", "a_dominating_state_wins",
                  "merge_of_parts_is_the_whole", "merge_agrees_with_oracle"},
    .when = "Tk > 1",
};

// The mean of the exponentials.
struct MergeLseOfTheMean : PlainMerge {
  static float merged_lse(float max, float sum, int64_t count) {
    return max + std::log(sum / static_cast<float>(count));
  }
};
QKVET_FAULT(merge_lse_of_the_mean) = {
    .kernel = merge_fault<MergeLseOfTheMean>,
    .mechanism = "the merged lse is that of the mean of the states",
    .symptom =
        "o is right; lse is too small by ln n, and whoever merges once "
        "more weighs this part too little",
    .cause = "states of equal parts are taken for averages",
    .fix = "add the exponentials, do not average them",
    .source = "textbook",
    .trigger = "two states",
    .killed_by = {"equal_states_keep_o_and_add_up",
                  "merge_of_parts_is_the_whole", "merge_agrees_with_oracle"},
    .when = "Tk > 1",
};

// The first lse is the maximum.
struct MergeFirstIsMaximum : PlainMerge {
  static float maximum(const float* lse, int64_t count) {
    return PlainMerge::maximum(lse, count) == kNone || lse[0] == kNone
               ? PlainMerge::maximum(lse, count)
               : lse[0];
  }
};
QKVET_FAULT(merge_first_is_maximum) = {
    .kernel = merge_fault<MergeFirstIsMaximum>,
    .mechanism = "the lse of the first state is subtracted, largest or not",
    .symptom =
        "right until a later state stands 88 above the first one: then "
        "infinity over infinity",
    .cause = "the prefix is taken to count more than what follows it",
    .fix = "subtract the largest lse of the row",
    .source = "textbook",
    .trigger = "a later state far above the first one",
    .killed_by = {"a_dominating_state_wins", "order_of_states_changes_nothing"},
    .when = "Tk > 1",
};

// Rows that were to stay.
struct MergeMaskInverted : PlainMerge {
  static bool merges(const MergeCall& call, int64_t t) {
    return call.row_mask.data == nullptr || !call.merges(t);
  }
};
QKVET_FAULT(merge_mask_inverted) = {
    .kernel = merge_fault<MergeMaskInverted,
                          QKVET_MERGE_IN_PLACE | QKVET_MERGE_ROW_MASK>,
    .mechanism = "rows with 0 in row_mask are merged, all others stay",
    .symptom =
        "requests that took part keep half of their context, and others "
        "get a second one",
    .cause = "one side means `skip`, the other `merge`",
    .fix = "nonzero means that the row is merged",
    .source = "textbook",
    .trigger = "a row_mask",
    .killed_by = {"rows_left_out_of_a_merge_stay"},
    .when = "",
};

// lse is read as it would lie without strides.
struct MergeLseRowsFirst : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    MergeCall packed = call;
    if (packed.states_lse.step[1] < packed.states_lse.step[2]) {
      packed.states_lse.step[1] = call.heads;
      packed.states_lse.step[2] = 1;
    }
    return packed.state_lse(t, n, h);
  }
};
QKVET_FAULT(merge_lse_rows_first) = {
    .kernel = merge_fault<MergeLseRowsFirst, QKVET_MERGE_LSE_HEADS_FIRST>,
    .mechanism = "lse that lies as [n, H, T] is read as [n, T, H]",
    .symptom =
        "right for one head or one row; else each row has the lse of "
        "another head",
    .cause = "one backend returns lse as [T, H], another one as [H, T]",
    .fix = "follow the strides of lse",
    .source = "textbook",
    .trigger = "lse with heads in front, several heads and rows",
    .killed_by = {"layout_of_states_changes_nothing",
                  "merge_agrees_with_oracle"},
    .when = "layout != bhtd && H > 1 && B > 1",
};

// The last of a row's states is left out.
struct MergeRaggedLeavesLast : PlainMerge {
  static int64_t count(const MergeCall& call, int64_t t) {
    const int64_t count = call.count(t);
    return call.ragged() && count > 1 ? count - 1 : count;
  }
};
QKVET_FAULT(merge_ragged_leaves_last) = {
    .kernel = merge_fault<MergeRaggedLeavesLast, QKVET_MERGE_RAGGED>,
    .mechanism = "of a row with an indptr the last state is left out",
    .symptom =
        "rows with one state are right; all others lack a part of their "
        "keys",
    .cause = "the end of a row is taken to be its last state",
    .fix = "merge states indptr[t] up to but not including indptr[t + 1]",
    .source = "textbook",
    .trigger = "an indptr and two states of a row",
    .killed_by = {"ragged_rows_equal_padded_rows", "merge_agrees_with_oracle"},
    .when = "kv_len && Tk > 1",
};

// The channels of o are merged one behind the other, with the lse of before and
// of after.
struct MergeReadsItsOwnLse : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    // The row before has been merged already.
    const int64_t from = call.in_place && n == 0 && t > 0 ? t - 1 : t;
    return call.state_lse(from, n, h);
  }
};
QKVET_FAULT(merge_in_place_reads_merged) = {
    .kernel = merge_fault<MergeReadsItsOwnLse, QKVET_MERGE_IN_PLACE>,
    .mechanism =
        "in place, a row reads the lse of the row before, which is "
        "merged already",
    .symptom = "the first row is right, and out of place all are",
    .cause = "an index that is off by one where it was kept from the last row",
    .fix = "read the lse of row t before it is overwritten",
    .source = "textbook",
    .trigger = "a merge in place of two rows",
    .killed_by = {"merge_in_place_equals_out_of_place"},
    .when = "B > 1 && Tk > 1",
};

// One state more than there is.
struct MergeReadsOneMore : PlainMerge {
  static float state(const MergeCall& call, int64_t t, int64_t n, int64_t h,
                     int64_t c) {
    const bool last = t == call.rows - 1 && h == call.heads - 1 &&
                      n == call.others - 1 && c == call.width - 1;
    const volatile float* const next =
        static_cast<const float*>(call.states.data) +
        call.states.index(n, t, h, c) + (last ? 1 : 0);
    return last ? call.state(t, n, h, c) + 0 * *next * 0
                : call.state(t, n, h, c);
  }
};
QKVET_FAULT(merge_reads_one_more) = {
    .kernel = merge_fault<MergeReadsOneMore>,
    .mechanism = "the number behind the last state is read",
    .symptom = "nothing, until the memory behind is nobody's or holds NaN",
    .cause = "vectors that are one channel wider than the rest of a row",
    .fix = "mask the last vector of a row",
    .source = "textbook",
    .trigger = "always",
    .killed_by = {"merge_reads_only_its_inputs"},
    .when = "",
};

// The maximum begins at a low number.
struct MergeMaximumFromLowNumber : PlainMerge {
  static float maximum(const float* lse, int64_t count) {
    constexpr float kLow = -1e6f;
    const float max = PlainMerge::maximum(lse, count);
    return max == kNone ? max : std::fmax(max, kLow);
  }
};
QKVET_FAULT(merge_maximum_from_low_number) = {
    .kernel = merge_fault<MergeMaximumFromLowNumber>,
    .mechanism = "the maximum of a row is -10^6 at least",
    .symptom = "NaN, 0 over 0, where every lse of a row is lower",
    .cause = "a number that is `low enough` stands for minus infinity",
    .fix = "begin with minus infinity, or with the first lse",
    .source = "textbook",
    .trigger = "a row whose lse are all below -10^6",
    .killed_by = {"merge_agrees_with_oracle"},
    .when = "",
};

// Every lse is cut to what f16 holds.
struct MergeLseCut : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    constexpr float kMost = 65504;
    const float lse = call.state_lse(t, n, h);
    return lse == kNone ? lse : std::fmax(std::fmin(lse, kMost), -kMost);
  }
};
QKVET_FAULT(merge_lse_cut) = {
    .kernel = merge_fault<MergeLseCut>,
    .mechanism = "every lse is cut to -65504 .. 65504",
    .symptom =
        "o is right where one state is far above the others; lse is wrong, and "
        "states beyond the limit weigh the same",
    .cause = "a guard against infinities of f16, in front of the merge",
    .fix = "merge what attention returned",
    .source = "textbook",
    .trigger = "an lse beyond the largest number of f16",
    .killed_by = {"merge_agrees_with_oracle"},
    .when = "",
};

// A planned merge is found again by its extents.
struct MergeStridesOfFirstCall : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    if (call.ragged() || call.in_place) {
      return call.state_lse(t, n, h);
    }
    const Stored& own = call.states_lse;
    thread_local std::map<std::array<int64_t, 4>, std::array<int64_t, 3>> known;
    const auto& steps =
        known
            .try_emplace({call.others, call.rows, call.heads, call.width},
                         std::array{own.step[0], own.step[1], own.step[2]})
            .first->second;
    const auto last = [&](int64_t a, int64_t b, int64_t c) {
      return (call.others - 1) * a + (call.rows - 1) * b + (call.heads - 1) * c;
    };
    // No read leaves the tensor.
    return last(steps[0], steps[1], steps[2]) <=
                   last(own.step[0], own.step[1], own.step[2])
               ? load(own.type, own.data,
                      n * steps[0] + t * steps[1] + h * steps[2])
               : call.state_lse(t, n, h);
  }
};
QKVET_FAULT(merge_strides_of_first_call) = {
    .kernel = merge_fault<MergeStridesOfFirstCall, QKVET_MERGE_LSE_HEADS_FIRST |
                                                       QKVET_MERGE_ANY_STRIDES>,
    .mechanism =
        "lse are read with the strides of the first merge of the process that "
        "had the same extents",
    .symptom =
        "right as long as all callers lay out their states alike; then rows "
        "have the lse of others",
    .cause = "a compiled merge whose key has extents and no strides",
    .fix = "put strides into the key",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4146",
    .trigger = "two merges of the same extents in two layouts",
    .killed_by = {"merge_calls_before_change_nothing"},
    .when = "",
};

}  // namespace qkvet::impl
