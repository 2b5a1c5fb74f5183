// SPDX-License-Identifier: Apache-2.0
// Faults of the softmax: the maximum, the exponential, lse, and the sink that
// joins the denominator.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

struct MeanOfValues : OptionHooks {
  static float weight(const ForwardCall&, int64_t, float) { return 1; }
};
QKVET_FAULT(mean_of_values, kOptionFault<MeanOfValues>) = {
    .when = "rows(seen > 1)",
    .cause = "all keys weigh the same: the scores are lost or replaced by one "
             "number",
    .fix = "normalise the exponentials of the scores",
    .killed_by = {"scale_is_one_over_sqrt_d", "query_heads_read_their_kv_head"},
};

struct SoftmaxOverQueries : OptionHooks {
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    std::vector<float> weights(static_cast<size_t>(call.queries * call.keys));
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) head(call, b, h, weights.data());
    }
    static_cast<void>(why);
    return QKVET_OK;
  }
  using Rows = OptionRows<OptionHooks>;

  static void head(const ForwardCall& call, int64_t b, int64_t h, float* w) {
    for (int64_t i = 0; i < call.queries; ++i) {
      for (int64_t j = 0; j < call.keys; ++j)
        w[i * call.keys + j] = Rows::sees(call, {b, h, i}, j)
                                   ? Rows::score(call, {b, h, i}, j)
                                   : kNone;
      if (call.lse.data != nullptr)
        *call.lse.at(b, h, i) = lse_of(w + i * call.keys, call.keys);
    }
    for (int64_t j = 0; j < call.keys; ++j)
      over_queries(w + j, call.keys, call.queries);
    for (int64_t i = 0; i < call.queries; ++i)
      for (int64_t c = 0; c < call.value_width; ++c)
        call.o.at(b, h, i)[c * call.o.step[3]] =
            Rows::column(call, {b, h, i}, c, w + i * call.keys, 1);
  }
  static float lse_of(const float* scores, int64_t keys) {
    const float max = *std::max_element(scores, scores + keys);
    float sum = 0;
    for (int64_t j = 0; j < keys && std::isfinite(max); ++j)
      sum += std::exp(scores[j] - max);
    return sum > 0 ? max + std::log(sum) : max;
  }
  // `step` lies between the queries of a key.
  static void over_queries(float* w, int64_t step, int64_t queries) {
    float max = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t i = 0; i < queries; ++i) max = std::fmax(max, w[i * step]);
    for (int64_t i = 0; i < queries; ++i)
      sum += w[i * step] = std::isinf(max) ? 0 : std::exp(w[i * step] - max);
    for (int64_t i = 0; i < queries && sum != 0; ++i) w[i * step] /= sum;
  }
};
QKVET_FAULT(softmax_over_queries,
            kForwardFault<forward_in_f32<SoftmaxOverQueries::compute>>) = {
    .when = "Tq > 1 || Tk > 1",
    .cause = "the softmax runs over the queries of each key instead of the "
             "keys of each query: its axis is counted from the wrong end",
    .fix = "take the softmax over the last axis of [B, H, Tq, Tk]",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once"},
};

struct NoMaxSubtraction : OptionHooks {
  static float shift(float) { return 0; }
};
QKVET_FAULT(no_max_subtraction, kPlainFault<NoMaxSubtraction>) = {
    .cause = "the row maximum is not subtracted before exp",
    .fix = "subtract the maximum of the row from its scores before exp",
    .source = "pytorch/pytorch#62897",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
};

struct NanWeighsNothing : OptionHooks {
  static float weight(const ForwardCall&, int64_t, float weight) {
    return weight > 0 ? weight : 0;
  }
};
QKVET_FAULT(nan_weighs_nothing, kOptionFault<NanWeighsNothing>) = {
    .when = "rows(seen > 1)",
    .cause = "a key whose score is NaN gets weight 0, as if it were hidden: "
             "the comparison for small scores is false for NaN",
    .fix = "compare the other way round: drop smaller scores, and keep NaN",
    .source =
        "textbook, cf. the fused CPU kernel of PyTorch 2.15 on a NaN query",
    .killed_by = {"nan_reaches_its_row"},
};

struct Exp2WithoutLog2e : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    constexpr float kLn2 = 0.693147181f;
    return OptionHooks::capped(call, s) * kLn2;
  }
};
QKVET_FAULT(exp2_without_log2e, kOptionFault<Exp2WithoutLog2e>) = {
    .when = "rows(seen > 1) || lse && rows(seen > 0)",
    .cause = "exp2 is taken of scores that were not multiplied by log2(e)",
    .fix = "scale = log2(e)/sqrt(d) where exp2 is used",
    .source = "iree-org/iree#16679",
    .killed_by = {"scale_is_one_over_sqrt_d", "shifted_keys_change_nothing"},
};

struct MaximumBeginsAtFinite : OptionHooks {
  static float first_max(float sink, float) { return std::fmax(sink, -100.0f); }
};
QKVET_FAULT(maximum_begins_at_finite, kOptionFault<MaximumBeginsAtFinite>) = {
    .cause = "the running maximum begins at -100",
    .fix = "begin at -infinity, and guard the difference of two of them",
    .source = "flashinfer-ai/flashinfer#4267",
    .killed_by = {"agrees_with_oracle"},
};

struct MaximumBeginsFarBelow : OptionHooks {
  static float first_max(float sink, float) {
    return std::fmax(sink, -10000.0f);
  }
  static float denominator(float sum, float, int64_t) {
    return sum == 0 ? 1 : sum;
  }
};
QKVET_FAULT(maximum_begins_far_below, kOptionFault<MaximumBeginsFarBelow>) = {
    .cause = "the running maximum begins at -10000",
    .fix = "begin at -infinity, and guard the difference of two of them",
    .source = "karpathy/llm.c train_gpt2.c",
    .killed_by = {"shifted_keys_change_nothing"},
};

struct MaximumBeginsAtSmallestPositive : OptionHooks {
  static float first_max(float sink, float) {
    return std::fmax(sink, std::numeric_limits<float>::min());
  }
};
QKVET_FAULT(maximum_begins_at_smallest_positive,
            kOptionFault<MaximumBeginsAtSmallestPositive>) = {
    .cause = "the running maximum begins at the smallest positive number: "
             "FLT_MIN is taken for the most negative one",
    .fix = "begin at -infinity",
    .source = "mit-han-lab/tinyengine#107",
    .killed_by = {"agrees_with_oracle"},
};

struct MaximumCarriedOver : OptionHooks {
  static float first_max(float sink, float carried) {
    return std::fmax(sink, carried);
  }
};
QKVET_FAULT(maximum_carried_over, kOptionFault<MaximumCarriedOver>) = {
    .when = "B * H * Tq > 1",
    .cause = "the running maximum is not reset between rows, heads and batch "
             "elements: it is set up outside of the loop",
    .fix = "one maximum a row, beginning at -infinity",
    .killed_by = {"other_rows_change_nothing", "other_heads_change_nothing"},
};

struct LseInBase2 : OptionHooks {
  static float lse(float max, float sum, float) {
    return (max + std::log(sum)) * 1.44269504f;
  }
};
QKVET_FAULT(lse_in_base_2, kOptionFault<LseInBase2>) = {
    .when = "lse && rows(seen > 0)",
    .cause = "lse is a logarithm to base 2 and is declared to be natural: it "
             "is not converted at the end",
    .fix = "multiply by ln 2, or declare base 2",
    .source = "textbook, cf. deepseek-ai/FlashMLA#106",
    .killed_by = {"lse_counts_equal_keys", "split_and_merge_by_lse"},
};

struct LseWithoutMaximum : OptionHooks {
  static float lse(float, float sum, float) { return std::log(sum); }
};
QKVET_FAULT(lse_without_maximum, kOptionFault<LseWithoutMaximum>) = {
    .when = "lse && rows(seen > 0)",
    .cause = "lse is the logarithm of the rescaled sum; the maximum is not "
             "added back",
    .fix = "add the maximum of the row",
    .source = "textbook, cf. deepseek-ai/FlashMLA#106",
    .killed_by = {"shifted_keys_change_nothing", "split_and_merge_by_lse"},
};

struct SinkIgnored : OptionHooks {
  static float sink(const ForwardCall&, int64_t) { return kNone; }
};
QKVET_FAULT(sink_ignored, kOptionFault<SinkIgnored, QKVET_OPTION_SINK>) = {
    .when = "sink",
    .cause = "the sink is accepted and does not count: no layer passes it on",
    .fix = "begin the denominator with exp(sink - max), or refuse it",
    .source = "textbook, cf. ROCm/rocm-libraries#12227",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
};

struct SinkTimesScale : OptionHooks {
  // None stays none, whatever the sign of the scale.
  static float sink(const ForwardCall& call, int64_t h) {
    const float sink = call.options.sink_of(h);
    return sink > kNone ? sink * call.scale : sink;
  }
};
QKVET_FAULT(sink_times_scale,
            kOptionFault<SinkTimesScale, QKVET_OPTION_SINK>) = {
    .when = "sink && !scale.is_one",
    .cause = "the sink is multiplied by the scale: it is appended to the "
             "scores before they are scaled",
    .fix = "append it to the scaled scores",
    .source = "ROCm/rocm-libraries#12227",
    .killed_by = {"sink_joins_the_denominator", "scale_moves_to_queries"},
};

struct SinkInBase2 : OptionHooks {
  static float sink(const ForwardCall& call, int64_t h) {
    constexpr float kLn2 = 0.693147181f;
    return call.options.sink_of(h) * kLn2;
  }
};
QKVET_FAULT(sink_in_base_2, kOptionFault<SinkInBase2, QKVET_OPTION_SINK>) = {
    .when = "sink",
    .cause = "scores are multiplied by log2(e) for exp2, and the sink is not: "
             "the factor is folded into the scale",
    .fix = "multiply the sink by log2(e) as well",
    .source = "ROCm/rocm-libraries#12227",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
};

struct SinkOfFirstHead : OptionHooks {
  static float sink(const ForwardCall& call, int64_t) {
    return call.options.sink_of(0);
  }
};
QKVET_FAULT(sink_of_first_head,
            kOptionFault<SinkOfFirstHead, QKVET_OPTION_SINK>) = {
    .when = "sink && H > 1",
    .cause = "all heads use the sink of head 0: it is read as one number",
    .fix = "index it by the query head",
    .source = "textbook, cf. ROCm/rocm-libraries#12227",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
};

struct SinkLostInDecode : OptionHooks {
  static float sink(const ForwardCall& call, int64_t h) {
    return call.queries == 1 ? kNone : OptionHooks::sink(call, h);
  }
};
QKVET_FAULT(sink_lost_in_decode,
            kOptionFault<SinkLostInDecode, QKVET_OPTION_SINK>) = {
    .when = "sink && Tq == 1",
    .cause = "the path for one query ignores sinks: it is older than them",
    .fix = "the sink belongs to the denominator of every path",
    .source = "ml-explore/mlx#3452",
    .killed_by = {"sink_joins_the_denominator", "prefill_equals_decode"},
};

struct SinkClaimedInLse : OptionHooks {
  static float lse(float max, float sum, float sink) {
    return max + std::log(sum - std::exp(sink - max));
  }
};
QKVET_FAULT(sink_claimed_in_lse,
            kOptionFault<SinkClaimedInLse, QKVET_OPTION_SINK>) = {
    .when = "sink && lse",
    .cause = "lse leaves the sink out and is declared to include it: lse is "
             "computed from the scores alone",
    .fix = "compute it from the sum that o is divided by, or declare it",
    .source = "deepseek-ai/FlashMLA#106",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
};

}  // namespace qkvet::impl
