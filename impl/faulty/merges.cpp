// SPDX-License-Identifier: Apache-2.0
// Faults in merges of attention states.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numbers>

#include "impl/call/half.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {

struct MergeWrongBase : PlainMerge {
  static float weight(float lse, float max) { return std::exp2(lse - max); }
};
QKVET_FAULT(merge_wrong_base, kMergeFault<MergeWrongBase>) = {
    .when = "Tk > 1",
    .cause = "weights are 2^(lse - m) where lse is natural: backends differ in "
             "the base of lse",
    .fix = "convert once where a backend is entered: natural = base 2 * ln 2",
    .source = "vllm-project/vllm#28840, vllm-project/vllm#47079, "
              "sgl-project/sglang#33064, sgl-project/sglang#40903",
    .killed_by = {"merge_agrees_with_oracle"},
};

struct MergeLseInBase2 : PlainMerge {
  static float merged_lse(float max, float sum, int64_t) {
    return max + std::log2(sum);
  }
};
QKVET_FAULT(merge_lse_in_base2, kMergeFault<MergeLseInBase2>) = {
    .when = "Tk > 1",
    .cause = "the merged lse is m + log2 of the sum instead of log: the factor "
             "ln 2 is missing",
    .fix = "multiply the logarithm by ln 2, or count everything in base 2",
    .source = "vllm-project/vllm#28840",
    .killed_by = {"equal_states_keep_o_and_add_up",
                  "merge_of_parts_is_the_whole"},
};

struct MergeEmptyIsPlusInf : PlainMerge {
  static float empty_lse() { return std::numeric_limits<float>::infinity(); }
};
QKVET_FAULT(merge_empty_is_plus_inf, kMergeFault<MergeEmptyIsPlusInf>) = {
    .cause = "a row whose states are all empty gets lse = +inf, the convention "
             "of some kernels",
    .fix = "write -infinity, the logarithm of nothing",
    .source = "textbook, cf. vllm-project/vllm#39148",
    .killed_by = {"merge_of_empty_states_is_empty"},
};

struct MergeEmptyIsNan : PlainMerge {
  static bool is_empty(float) { return false; }
};
QKVET_FAULT(merge_empty_is_nan, kMergeFault<MergeEmptyIsNan>) = {
    .cause = "exp(lse - m) is taken where both are -inf: the maximum of a row "
             "is taken to be finite",
    .fix = "where m = -inf write o = 0 and lse = -inf",
    .source = "flashinfer-ai/flashinfer#4051, vllm-project/vllm#39148",
    .killed_by = {"merge_of_empty_states_is_empty"},
};

struct MergeNoMaximum : PlainMerge {
  static float maximum(const float* lse, int64_t count) {
    return PlainMerge::maximum(lse, count) == kNone ? kNone : 0;
  }
};
QKVET_FAULT(merge_no_maximum, kMergeFault<MergeNoMaximum>) = {
    .cause = "weights are exp(lse), no maximum is subtracted: lse is taken to "
             "be small",
    .fix = "subtract the largest lse of the row from all of them",
    .killed_by = {"a_dominating_state_wins", "merge_agrees_with_oracle"},
};

struct MergeLseInHalf : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    return f16_to_f32(f32_to_f16(call.state_lse(t, n, h)));
  }
};
QKVET_FAULT(merge_lse_in_half, kMergeFault<MergeLseInHalf>) = {
    .cause = "every lse is rounded to f16 before it is used: it is stored like "
             "the states",
    .fix = "keep every lse in f32",
    .killed_by = {"empty_states_change_nothing", "a_dominating_state_wins"},
};

struct MergeWeightsOfTheOther : PlainMerge {
  static float weight_of(const float* weights, int64_t n, int64_t count) {
    return weights[count - 1 - n];
  }
};
QKVET_FAULT(merge_weights_of_the_other, kMergeFault<MergeWeightsOfTheOther>) = {
    .when = "Tk > 1",
    .cause = "the first state has the weight of the last one, and so on: two "
             "arguments are exchanged",
    .fix = "state n has the weight exp(lse_n - m)",
    .killed_by = {"empty_states_change_nothing", "a_dominating_state_wins"},
};

struct MergeLseOfTheMean : PlainMerge {
  static float merged_lse(float max, float sum, int64_t count) {
    return max + std::log(sum / static_cast<float>(count));
  }
};
QKVET_FAULT(merge_lse_of_the_mean, kMergeFault<MergeLseOfTheMean>) = {
    .when = "Tk > 1",
    .cause = "the merged lse is that of the mean of the states",
    .fix = "add the exponentials, do not average them",
    .killed_by = {"equal_states_keep_o_and_add_up",
                  "merge_of_parts_is_the_whole"},
};

struct MergeFirstIsMaximum : PlainMerge {
  static float maximum(const float* lse, int64_t count) {
    return PlainMerge::maximum(lse, count) == kNone || lse[0] == kNone
               ? PlainMerge::maximum(lse, count)
               : lse[0];
  }
};
QKVET_FAULT(merge_first_is_maximum, kMergeFault<MergeFirstIsMaximum>) = {
    .when = "Tk > 1",
    .cause = "the lse of the first state is subtracted, whether it is the "
             "largest or not",
    .fix = "subtract the largest lse of the row",
    .killed_by = {"a_dominating_state_wins", "order_of_states_changes_nothing"},
};

struct MergeMaskInverted : PlainMerge {
  static bool merges(const MergeCall& call, int64_t t) {
    return call.row_mask.data == nullptr || !call.merges(t);
  }
};
QKVET_FAULT(merge_mask_inverted,
            kMergeFault<MergeMaskInverted,
                        QKVET_MERGE_IN_PLACE | QKVET_MERGE_ROW_MASK>) = {
    .cause = "rows with 0 in row_mask are merged, all others stay: the mask is "
             "taken to mean skip",
    .fix = "nonzero means that the row is merged",
    .killed_by = {"rows_left_out_of_a_merge_stay"},
};

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
QKVET_FAULT(merge_lse_rows_first,
            kMergeFault<MergeLseRowsFirst, QKVET_MERGE_LSE_HEADS_FIRST>) = {
    .when = "layout != bhtd && H > 1 && B > 1",
    .cause = "an lse stored as [n, H, T] is read as [n, T, H]: backends differ "
             "in its order",
    .fix = "follow the strides of lse",
    .killed_by = {"layout_of_states_changes_nothing",
                  "merge_agrees_with_oracle"},
};

struct MergeRaggedLeavesLast : PlainMerge {
  static int64_t count(const MergeCall& call, int64_t t) {
    const int64_t count = call.count(t);
    return call.ragged() && count > 1 ? count - 1 : count;
  }
};
QKVET_FAULT(merge_ragged_leaves_last,
            kMergeFault<MergeRaggedLeavesLast, QKVET_MERGE_RAGGED>) = {
    .when = "kv_len && Tk > 1",
    .cause = "the last state of a row with an indptr is left out: its end is "
             "taken to be its last state",
    .fix = "merge states indptr[t] up to but not including indptr[t + 1]",
    .killed_by = {"ragged_rows_equal_padded_rows", "merge_agrees_with_oracle"},
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
QKVET_FAULT(merge_in_place_reads_merged,
            kMergeFault<MergeReadsItsOwnLse, QKVET_MERGE_IN_PLACE>) = {
    .when = "B > 1 && Tk > 1",
    .cause = "in place, a row reads the lse of the row before, which is merged "
             "already",
    .fix = "read the lse of row t before it is overwritten",
    .killed_by = {"merge_in_place_equals_out_of_place"},
};

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
QKVET_FAULT(merge_reads_one_more, kMergeFault<MergeReadsOneMore>) = {
    .cause = "the number after the last state is read: the vectors are one "
             "channel too wide",
    .fix = "mask the last vector of a row",
    .killed_by = {"merge_reads_only_its_inputs"},
};

struct MergeMaximumFromLowNumber : PlainMerge {
  static float maximum(const float* lse, int64_t count) {
    constexpr float kLow = -1e6f;
    const float max = PlainMerge::maximum(lse, count);
    return max == kNone ? max : std::fmax(max, kLow);
  }
};
QKVET_FAULT(merge_maximum_from_low_number,
            kMergeFault<MergeMaximumFromLowNumber>) = {
    .cause = "the maximum of a row is -10^6 at least: that number is used for "
             "minus infinity",
    .fix = "begin with minus infinity, or with the first lse",
    .killed_by = {"merge_agrees_with_oracle"},
};

struct MergeLseCut : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    constexpr float kMost = 65504;
    const float lse = call.state_lse(t, n, h);
    return lse == kNone ? lse : std::fmax(std::fmin(lse, kMost), -kMost);
  }
};
QKVET_FAULT(merge_lse_cut, kMergeFault<MergeLseCut>) = {
    .cause = "every lse is cut to -65504 .. 65504, a guard against infinities "
             "of f16",
    .fix = "merge what attention returned",
    .killed_by = {"merge_agrees_with_oracle"},
};

struct MergeStridesOfFirstCall : PlainMerge {
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    if (call.ragged() || call.in_place) return call.state_lse(t, n, h);
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
QKVET_FAULT(
    merge_strides_of_first_call,
    kMergeFault<MergeStridesOfFirstCall,
                QKVET_MERGE_LSE_HEADS_FIRST | QKVET_MERGE_ANY_STRIDES>) = {
    .cause = "lse are read with the strides of the first merge of the process "
             "that had the same extents",
    .fix = "put strides into the key",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4146",
    .killed_by = {"merge_calls_before_change_nothing"},
};

}  // namespace qkvet::impl
