// SPDX-License-Identifier: Apache-2.0
// Faults of what is added to scores: a bias, and ALiBi.
#include <array>
#include <cmath>
#include <limits>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

// The bias is scaled, too.
struct BiasTimesScale : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present() ? s + call.scale * bias.get(at.b, at.h, at.i, j) : s;
  }
};
QKVET_FAULT(bias_times_scale) = {
    .kernel = option_fault<BiasTimesScale, QKVET_OPTION_BIAS>,
    .mechanism = "the bias is added to q.k in front of the scale",
    .symptom = "a bias learnt elsewhere works at a fraction of its strength",
    .cause = "(q.k + bias) * scale where q.k * scale + bias is meant",
    .fix = "scale q.k first",
    .source = "textbook",
    .trigger = "a bias, and a scale other than 1",
    .killed_by = {"bias_alone_decides", "scale_moves_to_queries",
                  "agrees_with_oracle"},
    .when = "bias && !scale.is_one",
};

// The causal path has no bias.
struct BiasDroppedWhenCausal : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return call.causal ? s : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(bias_dropped_when_causal) = {
    .kernel = option_fault<BiasDroppedWhenCausal, QKVET_OPTION_BIAS>,
    .mechanism = "the causal path ignores the bias",
    .symptom = "the model loses its relative positions as soon as it decodes",
    .cause = "a fast path chosen by the causal flag alone",
    .fix = "take the fast path only without a bias",
    .source = "textbook, cf. pytorch/pytorch#187801",
    .trigger = "a bias together with the causal rule",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
    .when = "bias && causal",
};

// A bias with stride 0 counts as none.
struct BiasDroppedWhenBroadcast : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const bool broadcast = call.options.bias.step[2] == 0 && call.queries > 1;
    return broadcast ? s : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(bias_dropped_when_broadcast) = {
    .kernel = option_fault<BiasDroppedWhenBroadcast, QKVET_OPTION_BIAS>,
    .mechanism = "a bias that is broadcast over rows is left out",
    .symptom = "right with a bias that is written out, wrong with its view",
    .cause = "stride 0 taken for the mark of an absent tensor",
    .fix = "tell absent tensors by their data, and follow stride 0",
    .source = "textbook",
    .trigger = "Tq > 1, and a bias of one row",
    .killed_by = {"broadcast_equals_materialised", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "bias && !bias.rows && Tq > 1",
};

// One row of the bias for all rows.
struct BiasOfFirstRow : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, {at.b, at.h, 0}, j);
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionHooks::biased(call, {at.b, at.h, 0}, j, s);
  }
};
QKVET_FAULT(bias_of_first_row) = {
    .kernel = option_fault<BiasOfFirstRow, QKVET_OPTION_BIAS>,
    .mechanism = "all rows use row 0 of the bias",
    .symptom =
        "right for one query, and for a bias that is broadcast over rows",
    .cause = "the row taken for a chunk on its own, whose first is 0",
    .fix = "index the bias by the row of the call",
    .source = "huggingface/candle#899",
    .trigger = "Tq > 1, and a bias that differs from row to row",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
    .when = "bias.rows && Tq > 1",
};

// No bias is taken to be below -10000.
struct BiasCutOff : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present()
               ? s + std::fmax(bias.get(at.b, at.h, at.i, j), -10000.0f)
               : s;
  }
};
QKVET_FAULT(bias_cut_off) = {
    .kernel = option_fault<BiasCutOff, QKVET_OPTION_BIAS>,
    .mechanism = "a bias below -10000 counts as -10000",
    .symptom = "right with the biases of one model, flat with those of another",
    .cause = "-10000 stands for -infinity, and a guard against what is below",
    .fix = "add the bias as it is",
    .source = "textbook",
    .trigger = "two keys whose biases differ, both below -10000",
    .killed_by = {"shifted_bias_changes_nothing"},
    .when = "bias",
};

// The bias is kept in f16, in an f32 call, too.
struct BiasKeptInHalf : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present()
               ? s + f16_to_f32(f32_to_f16(bias.get(at.b, at.h, at.i, j)))
               : s;
  }
};
QKVET_FAULT(bias_kept_in_half) = {
    .kernel = option_fault<BiasKeptInHalf, QKVET_OPTION_BIAS>,
    .mechanism = "the bias is rounded to f16, whatever the call is stored in",
    .symptom = "a third digit that is off, and NaN where a bias is large",
    .cause = "a shared tile of half, sized for the common case",
    .fix = "keep the bias in the type of the scores",
    .source = "textbook",
    .trigger = "f32, and a bias with more than eleven bits or beyond 65504",
    .killed_by = {"shifted_bias_changes_nothing", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "dtype == f32 && bias",
};

// A row whose largest score is far below counts as one without a key.
struct RowOfFiniteMasksTakenForEmpty : OptionHooks {
  static float denominator(float sum, float max, int64_t) {
    return max <= kFarBelow ? std::numeric_limits<float>::infinity() : sum;
  }
  static float lse(float max, float sum, float sink) {
    return max <= kFarBelow ? kNone : OptionHooks::lse(max, sum, sink);
  }

 private:
  static constexpr float kFarBelow = -1e8f;
};
QKVET_FAULT(row_of_finite_masks_taken_for_empty) = {
    .kernel = option_fault<RowOfFiniteMasksTakenForEmpty, QKVET_OPTION_BIAS>,
    .mechanism =
        "a row whose largest score is below -1e8 is taken for one without a "
        "key: zeros, and an lse of -infinity",
    .symptom =
        "padded queries, masked by -1e9 everywhere, give zeros here and an "
        "average elsewhere",
    .cause = "rows without a key are told by how low their maximum is",
    .fix = "count the keys, or compare with -infinity alone",
    .source = "textbook",
    .trigger = "a row whose biases are all below -1e8",
    .killed_by = {"one_bias_for_a_row_changes_nothing", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "bias",
};

// The bias in units of log2(e), which the lowest f32 is beyond.
struct BiasOverflowsInBase2 : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    constexpr float kLog2E = 1.44269504f;
    const Stored& bias = call.options.bias;
    const bool overflows =
        bias.present() && std::isinf(kLog2E * bias.get(at.b, at.h, at.i, j));
    return overflows ? kNone : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(bias_overflows_in_base_2) = {
    .kernel = option_fault<BiasOverflowsInBase2, QKVET_OPTION_BIAS>,
    .mechanism =
        "a bias is multiplied by log2(e) for exp2, which makes the lowest "
        "number of the type -infinity",
    .symptom = "NaN in rows that are masked by the lowest number everywhere",
    .cause = "a bias converted to base 2 before the maximum is taken off",
    .fix = "take the maximum off first, or clamp the product",
    .source = "textbook",
    .trigger = "a row whose biases are all below -2.3e38",
    .killed_by = {"one_bias_for_a_row_changes_nothing", "agrees_with_oracle"},
    .when = "bias",
};

// Scores that f16 does not hold are infinities.
struct ScoreBeyondHalfOverflows : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    constexpr float kBeyond = 65520;
    const float sum = OptionHooks::biased(call, at, j, s);
    if (!call.options.bias.present() || !(std::fabs(sum) >= kBeyond)) {
      return sum;
    }
    return sum < 0 ? kNone : -kNone;
  }
};
QKVET_FAULT(score_beyond_half_overflows) = {
    .kernel = option_fault<ScoreBeyondHalfOverflows, QKVET_OPTION_BIAS>,
    .mechanism = "score and bias are added in f16, which ends at 65504",
    .symptom = "NaN where -65504 masks a whole row, and where a bias is large",
    .cause =
        "a mask value that fits the type, and a score that does not fit "
        "below it",
    .fix = "add in f32",
    .source = "textbook",
    .trigger =
        "a row whose scores are all below -65520, or one that is above 65520",
    .killed_by = {"one_bias_for_a_row_changes_nothing",
                  "shifted_bias_changes_nothing", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "bias",
};

// What stands for a mask is added as a bias, and again as a mask.
struct MaskingBiasAddedTwice : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    constexpr float kMasks = -10000;
    const Stored& bias = call.options.bias;
    const float b = bias.present() ? bias.get(at.b, at.h, at.i, j) : 0;
    return b <= kMasks ? s + b + b : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(masking_bias_added_twice) = {
    .kernel = option_fault<MaskingBiasAddedTwice, QKVET_OPTION_BIAS>,
    .mechanism =
        "a bias of -10000 or lower is added as a bias and once more as a mask",
    .symptom =
        "NaN where the lowest number masks a whole row; else lse alone is off",
    .cause = "a mask that is made out of the bias, and the bias kept as well",
    .fix = "add either",
    .source = "textbook",
    .trigger = "a row whose biases are all -10000 or lower",
    .killed_by = {"one_bias_for_a_row_changes_nothing",
                  "shifted_bias_changes_nothing", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "bias",
};

// Keys out of reach have the lowest number for a score, not -infinity: in a row
// whose biases are all that number they weigh as much as any other.
struct OutOfReachIsLowestNumber : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t) {
    return call.in_reach(i).count() > 0;
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const Run run = call.in_reach(at.i);
    const bool reached = run.begin <= j && j < run.end;
    return OptionHooks::allows(call, at, j) &&
           (reached || all_lowest(call, at, run));
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Run run = call.in_reach(at.i);
    const bool reached = run.begin <= j && j < run.end;
    return reached ? OptionHooks::biased(call, at, j, s) : kLowest;
  }

 private:
  static constexpr float kLowest = std::numeric_limits<float>::lowest();
  static bool all_lowest(const ForwardCall& call, RowAt at, Run run) {
    const Stored& bias = call.options.bias;
    for (int64_t j = run.begin; j < run.end; ++j) {
      if (!bias.present() || bias.get(at.b, at.h, at.i, j) > kLowest) {
        return false;
      }
    }
    return true;
  }
};
QKVET_FAULT(out_of_reach_is_lowest_number) = {
    .kernel = option_fault<OutOfReachIsLowestNumber, QKVET_OPTION_BIAS>,
    .mechanism =
        "keys beyond the causal rule get the lowest number as a score, as the "
        "keys have that a bias masks",
    .symptom =
        "padded queries whose bias is the lowest number everywhere see the "
        "future",
    .cause = "torch.finfo(dtype).min in the place of -infinity",
    .fix = "leave such keys out, or use -infinity",
    .source = "textbook",
    .trigger =
        "a row whose biases are all the lowest f32, and a key out of its reach",
    .killed_by = {"one_bias_for_a_row_changes_nothing", "agrees_with_oracle"},
    .when = "bias && rows(hidden > 0)",
};

// Distant keys gain.
struct AlibiSign : OptionHooks {
  static float tilted(float s, float slope, float distance) {
    return s + slope * distance;
  }
};
QKVET_FAULT(alibi_sign) = {
    .kernel = option_fault<AlibiSign, QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>,
    .mechanism = "ALiBi raises the scores of distant keys",
    .symptom = "models prefer what is far away",
    .cause = "a slope that is already negative at one end only",
    .fix = "subtract slope times distance",
    .source = "textbook",
    .trigger = "ALiBi, and two keys at different distances",
    .killed_by = {"alibi_equals_bias", "bias_alone_decides",
                  "shifted_keys_change_nothing", "agrees_with_oracle"},
    .when = "alibi && (Tq > 1 || Tk > 1)",
};

// Later keys have a negative distance.
struct AlibiDistanceSigned : OptionHooks {
  static float distance(const ForwardCall& call, int64_t i, int64_t j) {
    return static_cast<float>(call.position(i) - j);
  }
};
QKVET_FAULT(alibi_distance_signed) = {
    .kernel = option_fault<AlibiDistanceSigned, QKVET_OPTION_ALIBI>,
    .mechanism =
        "ALiBi takes position - key for the distance, negative for later keys",
    .symptom = "without the causal rule, the later a key the more it weighs",
    .cause = "code written for causal models",
    .fix = "take the absolute value",
    .source = "textbook",
    .trigger = "ALiBi without the causal rule",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
    .when = "alibi && !causal && Tq > 1",
};

// Distances from the first key.
struct AlibiFromZero : OptionHooks {
  static float distance(const ForwardCall&, int64_t, int64_t j) {
    return static_cast<float>(j);
  }
};
QKVET_FAULT(alibi_from_zero) = {
    .kernel = option_fault<AlibiFromZero, QKVET_OPTION_ALIBI>,
    .mechanism = "ALiBi counts the distance from key 0",
    .symptom = "the oldest keys weigh most",
    .cause = "key positions used where distances are meant",
    .fix = "count from the row's own position",
    .source = "textbook",
    .trigger = "ALiBi, and a row that sees two keys",
    .killed_by = {"bias_alone_decides", "shifted_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "alibi && (Tq > 1 || Tk > 1)",
};

// ALiBi forgets the keys in front of a chunk.
struct AlibiFromTopLeft : OptionHooks {
  static float distance(const ForwardCall&, int64_t i, int64_t j) {
    return std::fabs(static_cast<float>(i - j));
  }
};
QKVET_FAULT(alibi_from_top_left) = {
    .kernel = option_fault<AlibiFromTopLeft, QKVET_OPTION_ALIBI>,
    .mechanism = "ALiBi takes the row number for the row's position",
    .symptom = "right for prompts, wrong for every chunk on earlier keys",
    .cause = "the offset Tk - Tq missing from the distance",
    .fix = "count from i + Tk - Tq unless causal from the top left",
    .source = "textbook, cf. huggingface/candle#899",
    .trigger = "ALiBi, and Tq != Tk",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
    .when = "alibi && !top_left && Tq != Tk",
};

// ALiBi for as many positions as there are queries.
struct AlibiOfQueryLength : OptionHooks {
  static float slope(const ForwardCall& call, RowAt at) {
    return call.queries == 1 ? 0 : OptionHooks::slope(call, at);
  }
};
QKVET_FAULT(alibi_of_query_length) = {
    .kernel = option_fault<AlibiOfQueryLength,
                           QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>,
    .mechanism =
        "the distances of ALiBi are made for the number of queries: of one "
        "query there is one distance, which is 0",
    .symptom = "prompts are right, and decoding has no ALiBi",
    .cause = "a table of [1, Tq] that is broadcast over keys",
    .fix = "make the distances for Tk keys",
    .source = "keras-team/keras-hub#2861",
    .trigger = "ALiBi, one query and two keys",
    .killed_by = {"alibi_equals_bias", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "alibi && Tq == 1 && Tk > 1",
};

// Every slope is halved.
struct AlibiSlopeOfNextHead : OptionHooks {
  static float tilted(float s, float slope, float distance) {
    return OptionHooks::tilted(s, slope / 2, distance);
  }
};
QKVET_FAULT(alibi_slope_of_next_head) = {
    .kernel = option_fault<AlibiSlopeOfNextHead,
                           QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>,
    .mechanism =
        "every head has the slope of the next exponent, half of its own",
    .symptom = "distant keys weigh too much, in all heads alike",
    .cause =
        "exponents counted from 1 where the table counts from 0, or the other "
        "way round",
    .fix = "slope h is the one that is given for head h",
    .source = "textbook (ALiBi slopes)",
    .trigger =
        "ALiBi with a slope other than 0, and two keys at different distances",
    .killed_by = {"alibi_equals_bias", "bias_alone_decides",
                  "agrees_with_oracle"},
    .when = "alibi && (Tq > 1 || Tk > 1)",
};

// Slopes of one call hold for the next.
struct SlopesKeptForNextCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    for (int64_t h = 0; whole.options.slopes.present() && h < whole.heads;
         ++h) {
      kept()[static_cast<size_t>(h % kHeads)] = whole.options.slope_of(0, h);
    }
  }
  static float slope(const ForwardCall& call, RowAt at) {
    return call.options.slopes.present()
               ? call.options.slope_of(at.b, at.h)
               : kept()[static_cast<size_t>(at.h % kHeads)];
  }

 private:
  static constexpr int64_t kHeads = 64;
  static std::array<float, kHeads>& kept() {
    thread_local std::array<float, kHeads> slopes = {};
    return slopes;
  }
};
QKVET_FAULT(slopes_kept_for_next_call) = {
    .kernel = option_fault<SlopesKeptForNextCall,
                           QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>,
    .mechanism = "a call without ALiBi takes the slopes of an earlier call",
    .symptom =
        "a model without ALiBi is right until one with it has run in the same "
        "process",
    .cause =
        "what a call is planned with is kept, and an option that is absent "
        "leaves the old value there",
    .fix = "set every option in every call, absent ones to what they mean",
    .source = "flashinfer-ai/flashinfer#1028",
    .trigger = "a call without ALiBi after one with it",
    .killed_by = {"alibi_equals_bias"},
    .when = "",
};

// The columns of a bias are taken to be side by side.
struct BiasColumnsSideBySide : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    int64_t& step = member->options.bias.step[3];
    step = step > 1 ? 1 : step;
  }
};
QKVET_FAULT(bias_columns_side_by_side) = {
    .kernel = option_fault<BiasColumnsSideBySide, QKVET_OPTION_BIAS>,
    .mechanism = "column j of a bias is read j elements after the first",
    .symptom =
        "right for a bias in one piece; a transposed one, and a slice of "
        "columns, add numbers of other pairs",
    .cause = "three strides are passed on, and the last one is taken to be 1",
    .fix = "use the stride of the columns, or refuse another one than 1",
    .source = "textbook, cf. pytorch/pytorch#128816",
    .trigger = "a bias whose columns are apart, and two of them",
    .killed_by = {"layout_changes_nothing", "agrees_with_oracle"},
    .when = "bias && (layout == apart || layout == turned) && Tk > 1",
};

}  // namespace qkvet::impl
