// SPDX-License-Identifier: Apache-2.0
// Faults of what is added to scores: a bias, and ALiBi.
#include <array>
#include <cmath>
#include <limits>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

struct BiasTimesScale : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present() ? s + call.scale * bias.get(at.b, at.h, at.i, j) : s;
  }
};
QKVET_FAULT(bias_times_scale,
            kOptionFault<BiasTimesScale, QKVET_OPTION_BIAS>) = {
    .when = "bias && !scale.is_one",
    .cause = "the bias is added to q.k before the scale: (q.k + bias) * scale "
             "where q.k * scale + bias is meant",
    .fix = "scale q.k first",
    .killed_by = {"bias_alone_decides", "scale_moves_to_queries"},
};

struct BiasDroppedWhenCausal : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return call.causal ? s : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(bias_dropped_when_causal,
            kOptionFault<BiasDroppedWhenCausal, QKVET_OPTION_BIAS>) = {
    .when = "bias && causal",
    .cause =
        "the causal path ignores the bias: the causal flag alone selects it",
    .fix = "take the fast path only without a bias",
    .source = "textbook, cf. pytorch/pytorch#187801",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
};

struct BiasDroppedWhenBroadcast : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const bool broadcast = call.options.bias.step[2] == 0 && call.queries > 1;
    return broadcast ? s : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(bias_dropped_when_broadcast,
            kOptionFault<BiasDroppedWhenBroadcast, QKVET_OPTION_BIAS>) = {
    .when = "bias && !bias.rows && Tq > 1",
    .cause = "a bias that is broadcast over rows is left out: stride 0 is "
             "taken for an absent tensor",
    .fix = "tell absent tensors by their data, and follow stride 0",
    .killed_by = {"broadcast_equals_materialised", "bias_alone_decides"},
};

struct BiasOfFirstRow : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, {at.b, at.h, 0}, j);
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionHooks::biased(call, {at.b, at.h, 0}, j, s);
  }
};
QKVET_FAULT(bias_of_first_row,
            kOptionFault<BiasOfFirstRow, QKVET_OPTION_BIAS>) = {
    .when = "bias.rows && Tq > 1",
    .cause = "all rows use row 0 of the bias: each row is taken for a chunk of "
             "its own",
    .fix = "index the bias by the row of the call",
    .source = "huggingface/candle#899",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
};

struct BiasCutOff : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present()
               ? s + std::fmax(bias.get(at.b, at.h, at.i, j), -10000.0f)
               : s;
  }
};
QKVET_FAULT(bias_cut_off, kOptionFault<BiasCutOff, QKVET_OPTION_BIAS>) = {
    .when = "bias",
    .cause = "a bias below -10000 counts as -10000: that number is used for "
             "-infinity",
    .fix = "add the bias as it is",
    .killed_by = {"shifted_bias_changes_nothing"},
};

struct BiasKeptInHalf : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present()
               ? s + f16_to_f32(f32_to_f16(bias.get(at.b, at.h, at.i, j)))
               : s;
  }
};
QKVET_FAULT(bias_kept_in_half,
            kOptionFault<BiasKeptInHalf, QKVET_OPTION_BIAS>) = {
    .when = "dtype == f32 && bias",
    .cause = "the bias is rounded to f16 whatever the storage type: its shared "
             "tile is half",
    .fix = "keep the bias in the type of the scores",
    .killed_by = {"shifted_bias_changes_nothing", "bias_alone_decides"},
};

struct RowOfFiniteMasksTakenForEmpty : OptionHooks {
  static float denominator(float sum, float max, int64_t) {
    return max <= kFarBelow ? std::numeric_limits<float>::infinity() : sum;
  }
  static float lse(float max, float sum, float sink) {
    return max <= kFarBelow ? kNone : OptionHooks::lse(max, sum, sink);
  }
  static constexpr float kFarBelow = -1e8f;
};
QKVET_FAULT(row_of_finite_masks_taken_for_empty,
            kOptionFault<RowOfFiniteMasksTakenForEmpty, QKVET_OPTION_BIAS>) = {
    .when = "bias",
    .cause = "a row whose largest score is below -1e8 is treated as empty: "
             "zeros, and an lse of -infinity",
    .fix = "count the keys, or compare with -infinity alone",
    .killed_by = {"one_bias_for_a_row_changes_nothing", "bias_alone_decides"},
};

struct BiasOverflowsInBase2 : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    constexpr float kLog2E = 1.44269504f;
    const Stored& bias = call.options.bias;
    const bool overflows =
        bias.present() && std::isinf(kLog2E * bias.get(at.b, at.h, at.i, j));
    return overflows ? kNone : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(bias_overflows_in_base_2,
            kOptionFault<BiasOverflowsInBase2, QKVET_OPTION_BIAS>) = {
    .when = "bias",
    .cause = "the bias times log2(e), for exp2, turns the lowest number of the "
             "type into -infinity",
    .fix = "take the maximum off first, or clamp the product",
    .killed_by = {"one_bias_for_a_row_changes_nothing", "agrees_with_oracle"},
};

struct ScoreBeyondHalfOverflows : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    constexpr float kBeyond = 65520;
    const float sum = OptionHooks::biased(call, at, j, s);
    if (!call.options.bias.present() || !(std::fabs(sum) >= kBeyond))
      return sum;
    return sum < 0 ? kNone : -kNone;
  }
};
QKVET_FAULT(score_beyond_half_overflows,
            kOptionFault<ScoreBeyondHalfOverflows, QKVET_OPTION_BIAS>) = {
    .when = "bias",
    .cause = "score and bias are added in f16, which overflows beyond 65504",
    .fix = "add in f32",
    .killed_by = {"one_bias_for_a_row_changes_nothing",
                  "shifted_bias_changes_nothing"},
};

struct MaskingBiasAddedTwice : OptionHooks {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    constexpr float kMasks = -10000;
    const Stored& bias = call.options.bias;
    const float b = bias.present() ? bias.get(at.b, at.h, at.i, j) : 0;
    return b <= kMasks ? s + b + b : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(masking_bias_added_twice,
            kOptionFault<MaskingBiasAddedTwice, QKVET_OPTION_BIAS>) = {
    .when = "bias",
    .cause = "a bias of -10000 or lower is added twice: as a bias, and as the "
             "mask that is made of it",
    .fix = "add either",
    .killed_by = {"one_bias_for_a_row_changes_nothing",
                  "shifted_bias_changes_nothing"},
};

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
  static constexpr float kLowest = std::numeric_limits<float>::lowest();
  static bool all_lowest(const ForwardCall& call, RowAt at, Run run) {
    const Stored& bias = call.options.bias;
    for (int64_t j = run.begin; j < run.end; ++j)
      if (!bias.present() || bias.get(at.b, at.h, at.i, j) > kLowest)
        return false;
    return true;
  }
};
QKVET_FAULT(out_of_reach_is_lowest_number,
            kOptionFault<OutOfReachIsLowestNumber, QKVET_OPTION_BIAS>) = {
    .when = "bias && rows(hidden > 0)",
    .cause = "keys beyond the causal rule get the lowest finite score, like "
             "keys that a bias masks: torch.finfo.min for -infinity",
    .fix = "leave such keys out, or use -infinity",
    .killed_by = {"one_bias_for_a_row_changes_nothing", "agrees_with_oracle"},
};

struct AlibiSign : OptionHooks {
  static float tilted(float s, float slope, float distance) {
    return s + slope * distance;
  }
};
QKVET_FAULT(alibi_sign,
            kOptionFault<AlibiSign, QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>) = {
    .when = "alibi && (Tq > 1 || Tk > 1)",
    .cause = "ALiBi raises the scores of distant keys: the slope is already "
             "negative",
    .fix = "subtract slope times distance",
    .killed_by = {"alibi_equals_bias", "bias_alone_decides"},
};

struct AlibiDistanceSigned : OptionHooks {
  static float distance(const ForwardCall& call, int64_t i, int64_t j) {
    return static_cast<float>(call.position(i) - j);
  }
};
QKVET_FAULT(alibi_distance_signed,
            kOptionFault<AlibiDistanceSigned, QKVET_OPTION_ALIBI>) = {
    .when = "alibi && !causal && Tq > 1",
    .cause = "ALiBi uses position - key as the distance, negative for later "
             "keys: the code was written for causal models",
    .fix = "take the absolute value",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
};

struct AlibiFromZero : OptionHooks {
  static float distance(const ForwardCall&, int64_t, int64_t j) {
    return static_cast<float>(j);
  }
};
QKVET_FAULT(alibi_from_zero,
            kOptionFault<AlibiFromZero, QKVET_OPTION_ALIBI>) = {
    .when = "alibi && (Tq > 1 || Tk > 1)",
    .cause = "ALiBi counts the distance from key 0: key positions are used as "
             "distances",
    .fix = "count from the row's own position",
    .killed_by = {"bias_alone_decides", "shifted_keys_change_nothing"},
};

struct AlibiFromTopLeft : OptionHooks {
  static float distance(const ForwardCall&, int64_t i, int64_t j) {
    return std::fabs(static_cast<float>(i - j));
  }
};
QKVET_FAULT(alibi_from_top_left,
            kOptionFault<AlibiFromTopLeft, QKVET_OPTION_ALIBI>) = {
    .when = "alibi && !top_left && Tq != Tk",
    .cause = "ALiBi uses the row number as the row's position: the offset Tk - "
             "Tq is missing",
    .fix = "count from i + Tk - Tq unless causal from the top left",
    .source = "textbook, cf. huggingface/candle#899",
    .killed_by = {"bias_alone_decides", "agrees_with_oracle"},
};

struct AlibiOfQueryLength : OptionHooks {
  static float slope(const ForwardCall& call, RowAt at) {
    return call.queries == 1 ? 0 : OptionHooks::slope(call, at);
  }
};
QKVET_FAULT(alibi_of_query_length,
            kOptionFault<AlibiOfQueryLength,
                         QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>) = {
    .when = "alibi && Tq == 1 && Tk > 1",
    .cause = "the distances of ALiBi are made for the number of queries: for "
             "one query there is one distance, 0",
    .fix = "make the distances for Tk keys",
    .source = "keras-team/keras-hub#2861",
    .killed_by = {"alibi_equals_bias", "bias_alone_decides"},
};

struct AlibiSlopeOfNextHead : OptionHooks {
  static float tilted(float s, float slope, float distance) {
    return OptionHooks::tilted(s, slope / 2, distance);
  }
};
QKVET_FAULT(alibi_slope_of_next_head,
            kOptionFault<AlibiSlopeOfNextHead,
                         QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>) = {
    .when = "alibi && (Tq > 1 || Tk > 1)",
    .cause = "every head has the slope of the next exponent, half of its own: "
             "exponents are counted from the wrong end of 0 or 1",
    .fix = "slope h is the one that is given for head h",
    .source = "paiml/aprender#2143",
    .killed_by = {"alibi_equals_bias", "bias_alone_decides"},
};

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
  static constexpr int64_t kHeads = 64;
  static std::array<float, kHeads>& kept() {
    thread_local std::array<float, kHeads> slopes = {};
    return slopes;
  }
};
QKVET_FAULT(slopes_kept_for_next_call,
            kOptionFault<SlopesKeptForNextCall,
                         QKVET_OPTION_ALIBI | QKVET_OPTION_BIAS>) = {
    .cause = "a call without ALiBi uses the slopes of an earlier call: the "
             "plan keeps the value of an absent option",
    .fix = "set every option in every call, absent ones to their default",
    .source = "flashinfer-ai/flashinfer#1028",
    .killed_by = {"alibi_equals_bias"},
};

struct BiasColumnsSideBySide : OptionHooks {
  static void member(const ForwardCall&, int64_t, ForwardCall* member) {
    int64_t& step = member->options.bias.step[3];
    step = step > 1 ? 1 : step;
  }
};
QKVET_FAULT(bias_columns_side_by_side,
            kOptionFault<BiasColumnsSideBySide, QKVET_OPTION_BIAS>) = {
    .when = "bias && (layout == apart || layout == turned) && Tk > 1",
    .cause = "column j of a bias is read j elements after the first: the last "
             "stride is taken to be 1",
    .fix = "use the stride of the columns, or refuse another one than 1",
    .source = "textbook, cf. pytorch/pytorch#128816",
    .killed_by = {"layout_changes_nothing", "agrees_with_oracle"},
};

}  // namespace qkvet::impl
