// SPDX-License-Identifier: Apache-2.0
// Faults of the softmax: the maximum, the exponential, lse, and the sink that
// joins the denominator.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

// The scores do not matter.
struct MeanOfValues : OptionHooks {
  static float weight(const ForwardCall&, int64_t, float) { return 1; }
};
QKVET_FAULT(mean_of_values) = {
    .kernel = option_fault<MeanOfValues>,
    .mechanism = "all keys weigh the same",
    .symptom = "every output is the mean of the values that the row sees",
    .cause = "scores lost between two kernels, or all replaced by one number",
    .fix = "normalise the exponentials of the scores",
    .source = "textbook",
    .trigger = "two keys with different scores",
    .killed_by = {"scale_is_one_over_sqrt_d", "query_heads_read_their_kv_head",
                  "split_and_merge_by_lse", "agrees_with_oracle"},
    .when = "rows(seen > 1)",
};

// The weights of a key add up to one over the queries that see it, and not the
// weights of a query over its keys.
struct SoftmaxOverQueries : PlainHooks {
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    std::vector<float> weights(static_cast<size_t>(call.queries * call.keys));
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        head(call, b, h, weights.data());
      }
    }
    static_cast<void>(why);
    return QKVET_OK;
  }

 private:
  using Rows = HookRows<PlainHooks>;

  static void head(const ForwardCall& call, int64_t b, int64_t h, float* w) {
    const int64_t kv = h / call.group();
    const KeyHead k = {call.k.at(b, kv, 0), call.k.step[2], call.k.step[3],
                       call.keys, call.width};
    for (int64_t i = 0; i < call.queries; ++i) {
      Rows::scores(call, call.q.at(b, h, i), k, i, w + i * call.keys);
      if (call.lse.data != nullptr) {
        *call.lse.at(b, h, i) = lse_of(w + i * call.keys, call.keys);
      }
    }
    for (int64_t j = 0; j < call.keys; ++j) {
      over_queries(w + j, call.keys, call.queries);
    }
    for (int64_t i = 0; i < call.queries; ++i) {
      for (int64_t c = 0; c < call.value_width; ++c) {
        call.o.at(b, h, i)[c * call.o.step[3]] =
            Rows::value(call, call.v.at(b, kv, 0), i, c, w + i * call.keys, 1);
      }
    }
  }
  static float lse_of(const float* scores, int64_t keys) {
    const float max = *std::max_element(scores, scores + keys);
    float sum = 0;
    for (int64_t j = 0; j < keys && std::isfinite(max); ++j) {
      sum += std::exp(scores[j] - max);
    }
    return sum > 0 ? max + std::log(sum) : max;
  }
  // `step` lies between the queries of a key.
  static void over_queries(float* w, int64_t step, int64_t queries) {
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t i = 0; i < queries; ++i) {
      max = std::fmax(max, w[i * step]);
    }
    for (int64_t i = 0; i < queries; ++i) {
      sum += w[i * step] = std::isinf(max) ? 0 : std::exp(w[i * step] - max);
    }
    for (int64_t i = 0; i < queries && sum != 0; ++i) {
      w[i * step] /= sum;
    }
  }
};
QKVET_FAULT(softmax_over_queries) = {
    .kernel = forward_fault<forward_in_f32<SoftmaxOverQueries::compute>>,
    .mechanism =
        "the softmax runs over the queries of each key, and not over the keys "
        "of each query",
    .symptom =
        "the weights of a row do not add up to one, and other rows change it",
    .cause =
        "the axis of the softmax counted from the wrong end: -2 for -1, or 0 "
        "for 1 in scores of one head",
    .fix = "take the softmax over the last axis of [B, H, Tq, Tk]",
    .source = "textbook (softmax over dim -2)",
    .trigger = "two queries, or two keys",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once",
                  "other_rows_change_nothing", "agrees_with_oracle"},
    .when = "Tq > 1 || Tk > 1",
};

// exp of the bare scores.
struct NoMaxSubtraction : PlainHooks {
  static float shift(float) { return 0; }
};
QKVET_FAULT(no_max_subtraction) = {
    .kernel = plain_fault<NoMaxSubtraction>,
    .mechanism = "the row maximum is not subtracted before exp",
    .symptom =
        "NaN as soon as a score passes 88, and when all scores of a row are "
        "below -103",
    .cause = "softmax written as exp(s) / sum(exp(s))",
    .fix = "subtract the maximum of the row from its scores before exp",
    .source = "textbook",
    .trigger = "a scaled score above 88.7, or a whole row below -103",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "",
};

// A weight counts where it is above 0, which NaN is not.
struct NanWeighsNothing : OptionHooks {
  static float weight(const ForwardCall&, int64_t, float weight) {
    return weight > 0 ? weight : 0;
  }
};
QKVET_FAULT(nan_weighs_nothing) = {
    .kernel = option_fault<NanWeighsNothing>,
    .mechanism =
        "the weight of a key whose score is NaN is 0, as if it were hidden",
    .symptom =
        "NaN in one key or one bias is gone from the output, and training goes "
        "on with a model that is broken",
    .cause =
        "a comparison that decides what is too small to count: NaN is not "
        "above, so that it falls on the other side",
    .fix = "compare the other way round: what is below is left out, NaN stays",
    .source =
        "textbook, cf. the fused CPU kernel of PyTorch 2.15 on a NaN "
        "query",
    .trigger = "NaN at one key that a row sees, of several",
    .killed_by = {"nan_reaches_its_row"},
    .when = "rows(seen > 1)",
};

// 2^x in place of e^x.
struct Exp2WithoutLog2e : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    constexpr float kLn2 = 0.693147181f;
    return OptionHooks::capped(call, s) * kLn2;
  }
};
QKVET_FAULT(exp2_without_log2e) = {
    .kernel = option_fault<Exp2WithoutLog2e>,
    .mechanism =
        "exponentials to the base 2 of scores that were not multiplied by "
        "log2(e)",
    .symptom =
        "weights are flatter than they should be, as with a scale that is 31 % "
        "too small",
    .cause = "exp2 is faster, and its factor belongs into the scale",
    .fix = "scale = log2(e)/sqrt(d) where exp2 is used",
    .source = "textbook (base-2 softmax)",
    .trigger = "two keys with different scores",
    .killed_by = {"scale_is_one_over_sqrt_d", "shifted_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "rows(seen > 1) || lse && rows(seen > 0)",
};

// The maximum of a row begins at a finite number.
struct MaximumBeginsAtFinite : OptionHooks {
  static float first_max(float sink, float) { return std::fmax(sink, -100.0f); }
};
QKVET_FAULT(maximum_begins_at_finite) = {
    .kernel = option_fault<MaximumBeginsAtFinite>,
    .mechanism = "the running maximum begins at -100",
    .symptom = "NaN, or zeros, in rows whose scores are all below that",
    .cause =
        "a number that no score was thought to reach, where -infinity gave NaN "
        "elsewhere",
    .fix = "begin at -infinity, and guard the difference of two of them",
    .source = "flashinfer-ai/flashinfer#4267",
    .trigger = "a row all of whose scores are far below -100",
    .killed_by = {"agrees_with_oracle"},
    .when = "",
};

// The maximum of a row begins at a number that N(0,1) never comes near.
struct MaximumBeginsFarBelow : OptionHooks {
  static float first_max(float sink, float) {
    return std::fmax(sink, -10000.0f);
  }
  static float denominator(float sum, float, int64_t) {
    return sum == 0 ? 1 : sum;
  }
};
QKVET_FAULT(maximum_begins_far_below) = {
    .kernel = option_fault<MaximumBeginsFarBelow>,
    .mechanism = "the running maximum begins at -10000",
    .symptom = "zeros in rows whose scores are all below that",
    .cause =
        "a number that no score was thought to reach, and a guard against a "
        "sum of zero that makes it quiet",
    .fix = "begin at -infinity, and guard the difference of two of them",
    .source = "karpathy/llm.c train_gpt2.c",
    .trigger = "a row all of whose scores are far below -10000",
    .killed_by = {"shifted_keys_change_nothing"},
    .when = "",
};

// The maximum of a row begins at FLT_MIN.
struct MaximumBeginsAtSmallestPositive : OptionHooks {
  static float first_max(float sink, float) {
    return std::fmax(sink, std::numeric_limits<float>::min());
  }
};
QKVET_FAULT(maximum_begins_at_smallest_positive) = {
    .kernel = option_fault<MaximumBeginsAtSmallestPositive>,
    .mechanism = "the running maximum begins at the smallest positive number",
    .symptom = "NaN or lost weights in rows whose scores are all below -80",
    .cause = "FLT_MIN taken for the most negative number",
    .fix = "begin at -infinity",
    .source = "textbook (FLT_MIN)",
    .trigger = "a row all of whose scores are far below 0",
    .killed_by = {"agrees_with_oracle"},
    .when = "",
};

// One maximum for the whole call.
struct MaximumCarriedOver : OptionHooks {
  static float first_max(float sink, float carried) {
    return std::fmax(sink, carried);
  }
};
QKVET_FAULT(maximum_carried_over) = {
    .kernel = option_fault<MaximumCarriedOver>,
    .mechanism =
        "the running maximum is not reset: a row begins with that of all rows, "
        "heads and members before it",
    .symptom =
        "other last bits with other batch mates; NaN when an earlier row had "
        "scores larger by 104",
    .cause =
        "x - x.max() over the whole tensor, or a maximum set up outside of the "
        "loop over rows",
    .fix = "one maximum a row, beginning at -infinity",
    .source = "textbook",
    .trigger = "a row whose scores are all below those of an earlier row",
    .killed_by = {"other_rows_change_nothing", "other_heads_change_nothing",
                  "other_members_change_nothing", "agrees_with_oracle"},
    .when = "B * H * Tq > 1",
};

// lse to base 2 under the name of a natural one.
struct LseInBase2 : OptionHooks {
  static float lse(float max, float sum, float) {
    return (max + std::log(sum)) * 1.44269504f;
  }
};
QKVET_FAULT(lse_in_base_2) = {
    .kernel = option_fault<LseInBase2>,
    .mechanism = "lse is a logarithm to base 2 and is declared to be natural",
    .symptom = "parts merged by it get wrong weights",
    .cause = "arithmetic in base 2, and no conversion at the end",
    .fix = "multiply by ln 2, or declare base 2",
    .source = "textbook, cf. deepseek-ai/FlashMLA#106",
    .trigger = "lse is asked for, and a row sees two keys or has a score",
    .killed_by = {"lse_counts_equal_keys", "split_and_merge_by_lse",
                  "agrees_with_oracle"},
    .when = "lse && rows(seen > 0)",
};

// lse lacks the maximum.
struct LseWithoutMaximum : OptionHooks {
  static float lse(float, float sum, float) { return std::log(sum); }
};
QKVET_FAULT(lse_without_maximum) = {
    .kernel = option_fault<LseWithoutMaximum>,
    .mechanism =
        "lse is the logarithm of the rescaled sum; the maximum is not added "
        "back",
    .symptom =
        "parts of a long row are merged as if their best keys were equal",
    .cause = "log(sum) stored where max + log(sum) is meant",
    .fix = "add the maximum of the row",
    .source = "textbook, cf. deepseek-ai/FlashMLA#106",
    .trigger = "lse is asked for, and the largest score of a row is not 0",
    .killed_by = {"shifted_keys_change_nothing", "split_and_merge_by_lse",
                  "agrees_with_oracle"},
    .when = "lse && rows(seen > 0)",
};

// The sink changes nothing.
struct SinkIgnored : OptionHooks {
  static float sink(const ForwardCall&, int64_t) { return kNone; }
};
QKVET_FAULT(sink_ignored) = {
    .kernel = option_fault<SinkIgnored, QKVET_OPTION_SINK>,
    .mechanism = "the sink is accepted and does not count",
    .symptom = "rows cannot attend to nothing",
    .cause = "an argument that is passed on by no layer",
    .fix = "begin the denominator with exp(sink - max), or refuse it",
    .source = "textbook, cf. ROCm/rocm-libraries#12227",
    .trigger = "a sink",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
    .when = "sink",
};

// The sink is scaled like q.k.
struct SinkTimesScale : OptionHooks {
  // None stays none, whatever the sign of the scale.
  static float sink(const ForwardCall& call, int64_t h) {
    const float sink = call.options.sink_of(h);
    return sink > kNone ? sink * call.scale : sink;
  }
};
QKVET_FAULT(sink_times_scale) = {
    .kernel = option_fault<SinkTimesScale, QKVET_OPTION_SINK>,
    .mechanism = "the sink is multiplied by the scale",
    .symptom = "sinks work at a fraction of their strength",
    .cause = "the sink appended to the scores before they are scaled",
    .fix = "append it to the scaled scores",
    .source = "ROCm/rocm-libraries#12227",
    .trigger = "a sink other than 0, and a scale other than 1",
    .killed_by = {"sink_joins_the_denominator", "scale_moves_to_queries",
                  "agrees_with_oracle"},
    .when = "sink && !scale.is_one",
};

// The sink is not taken to base 2.
struct SinkInBase2 : OptionHooks {
  static float sink(const ForwardCall& call, int64_t h) {
    constexpr float kLn2 = 0.693147181f;
    return call.options.sink_of(h) * kLn2;
  }
};
QKVET_FAULT(sink_in_base_2) = {
    .kernel = option_fault<SinkInBase2, QKVET_OPTION_SINK>,
    .mechanism =
        "scores are multiplied by log2(e) for exp2, and the sink is not",
    .symptom = "sinks work at 69 % of their strength",
    .cause = "the factor is folded into the scale, which the sink does not see",
    .fix = "multiply the sink by log2(e) as well",
    .source = "ROCm/rocm-libraries#12227",
    .trigger = "a sink other than 0",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
    .when = "sink",
};

// One sink for all heads.
struct SinkOfFirstHead : OptionHooks {
  static float sink(const ForwardCall& call, int64_t) {
    return call.options.sink_of(0);
  }
};
QKVET_FAULT(sink_of_first_head) = {
    .kernel = option_fault<SinkOfFirstHead, QKVET_OPTION_SINK>,
    .mechanism = "all heads use the sink of head 0",
    .symptom = "right for a model whose sinks are equal",
    .cause = "the sink read as one number",
    .fix = "index it by the query head",
    .source = "textbook, cf. ROCm/rocm-libraries#12227",
    .trigger = "H > 1, and sinks that differ",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
    .when = "sink && H > 1",
};

// With one query there is no sink.
struct SinkLostInDecode : OptionHooks {
  static float sink(const ForwardCall& call, int64_t h) {
    return call.queries == 1 ? kNone : OptionHooks::sink(call, h);
  }
};
QKVET_FAULT(sink_lost_in_decode) = {
    .kernel = option_fault<SinkLostInDecode, QKVET_OPTION_SINK>,
    .mechanism = "the path for one query knows no sinks",
    .symptom =
        "prefill is right, decoding gives weights that sum to one without the "
        "sink",
    .cause = "a decode path of its own, written before sinks were",
    .fix = "the sink belongs to the denominator of every path",
    .source = "textbook (decode paths)",
    .trigger = "a sink, and Tq = 1",
    .killed_by = {"sink_joins_the_denominator", "prefill_equals_decode",
                  "agrees_with_oracle"},
    .when = "sink && Tq == 1",
};

// lse without the sink, declared with it.
struct SinkClaimedInLse : OptionHooks {
  static float lse(float max, float sum, float sink) {
    return max + std::log(sum - std::exp(sink - max));
  }
};
QKVET_FAULT(sink_claimed_in_lse) = {
    .kernel = option_fault<SinkClaimedInLse, QKVET_OPTION_SINK>,
    .mechanism = "lse leaves the sink out, and is declared to include it",
    .symptom = "parts merged by it are too light against the sink",
    .cause = "lse computed from the scores, o from the scores and the sink",
    .fix = "compute it from the sum that o is divided by, or declare it",
    .source = "deepseek-ai/FlashMLA#106",
    .trigger = "a sink, and lse is asked for",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
    .when = "sink && lse",
};

}  // namespace qkvet::impl
