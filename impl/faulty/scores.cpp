// SPDX-License-Identifier: Apache-2.0
// Faults of what scores are multiplied by or pass through: the scale, and the
// softcap.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct NoScale : OptionHooks {
  static float scale(const ForwardCall&) { return 1; }
};
QKVET_FAULT(no_scale, kPlainFault<NoScale>) = {
    .when = "!scale.is_one",
    .cause = "the scores are not scaled",
    .fix = "multiply q k^T by the given scale, or by 1/sqrt(d)",
    .source = "mlc-ai/mlc-llm#3426, ROCm/composable_kernel#526",
    .killed_by = {"scale_is_one_over_sqrt_d", "scale_moves_to_queries"},
};

struct ScaleTwice : OptionHooks {
  static float scale(const ForwardCall& call) {
    return call.scale * call.scale;
  }
};
QKVET_FAULT(scale_twice, kPlainFault<ScaleTwice>) = {
    .when = "!scale.is_one",
    .cause = "the scale is applied twice: once to q and once to the scores",
    .fix = "scale once: q, or the scores, not both",
    .killed_by = {"scale_is_one_over_sqrt_d", "scale_moves_to_queries"},
};

struct SqrtModelWidth : OptionHooks {
  static float scale(const ForwardCall& call) {
    return call.scale_given ? call.scale
                            : default_scale(call.heads * call.width);
  }
};
QKVET_FAULT(sqrt_model_width, kPlainFault<SqrtModelWidth>) = {
    .when = "!scale.given && H > 1",
    .cause = "the default scale is 1/sqrt(H * d), for 1/sqrt(d): the model "
             "width is taken for the head width",
    .fix = "divide by sqrt(d), d = D / H",
    .source = "karpathy/ng-video-lecture#6",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
};

struct ScaleOfPaddedWidth : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const int64_t padded =
        (call.width + 4 * tile() - 1) / (4 * tile()) * (4 * tile());
    const float factor = call.scale_given
                             ? 1.0f
                             : std::sqrt(static_cast<float>(call.width) /
                                         static_cast<float>(padded));
    return OptionHooks::capped(call, s * factor);
  }
};
QKVET_FAULT(scale_of_padded_width, kOptionFault<ScaleOfPaddedWidth>) = {
    .when = "!scale.given && d % 16 != 0",
    .cause = "the default scale is that of d rounded up to a multiple of 16: d "
             "is read after padding",
    .fix = "take the width before it is padded",
    .killed_by = {"scale_is_one_over_sqrt_d", "shifted_keys_change_nothing"},
    .tiled = true,
};

struct ScaleRoundedToBf16 : OptionHooks {
  static float rounded(float x) {
    uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  static float capped(const ForwardCall& call, float s) {
    return OptionHooks::capped(call, s * (rounded(call.scale) / call.scale));
  }
};
QKVET_FAULT(scale_rounded_to_bf16, kOptionFault<ScaleRoundedToBf16>) = {
    .when = "scale.bits > 8",
    .cause = "the scale is rounded to 8 bits before it multiplies the scores: "
             "it has the storage type",
    .fix = "keep the scale in f32, or declare how it is rounded",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
};

struct ScaleTruncatedToBf16 : OptionHooks {
  static float truncated(float x) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
  }
  static float capped(const ForwardCall& call, float s) {
    return OptionHooks::capped(call, s * (truncated(call.scale) / call.scale));
  }
};
QKVET_FAULT(scale_truncated_to_bf16, kOptionFault<ScaleTruncatedToBf16>) = {
    .when = "scale.bits > 8",
    .cause = "the lower half of the bits of the scale is dropped: its upper "
             "half is packed as bf16",
    .fix = "pass it in f32, or round it and declare that",
    .source = "tenstorrent/tt-metal#53217",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
};

struct DefaultScaleOfZero : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    return OptionHooks::capped(call, call.scale_given ? s : s * 0);
  }
};
QKVET_FAULT(default_scale_of_zero, kOptionFault<DefaultScaleOfZero>) = {
    .when = "!scale.given && (rows(seen > 1) || (lse && rows(seen == 1)))",
    .cause = "without a scale, scores are multiplied by 0: the mark of the "
             "default is used as the scale",
    .fix = "replace it by 1/sqrt(d) before anything branches",
    .source = "SKaiNET-developers/SKaiNET#880",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
};

struct RootOfNegativeScale : OptionHooks {
  // Where there is a root its square is the scale, up to roundings that are
  // not the subject.
  static float capped(const ForwardCall& call, float s) {
    const bool has_root = std::sqrt(call.scale) >= 0;
    return OptionHooks::capped(call, has_root ? s : s * std::sqrt(call.scale));
  }
};
QKVET_FAULT(root_of_negative_scale, kOptionFault<RootOfNegativeScale>) = {
    .when = "scale.negative",
    .cause = "q and k are each multiplied by the square root of the scale, "
             "which is NaN if the scale is negative",
    .fix = "give one of the two the sign, or refuse a negative scale in "
           "supports()",
    .source = "pytorch/pytorch#105202",
    .killed_by = {"scale_moves_to_queries"},
};

struct SoftcapIgnored : OptionHooks {
  static float capped(const ForwardCall&, float s) { return s; }
};
QKVET_FAULT(softcap_ignored,
            kOptionFault<SoftcapIgnored, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap",
    .cause = "softcap is accepted and not applied: no layer passes it on",
    .fix = "apply softcap * tanh(s / softcap), or refuse it",
    .source = "textbook, cf. unslothai/unsloth-zoo#593",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
};

struct SoftcapSignLost : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    return call.options.softcap > 0 ? OptionHooks::capped(call, std::fabs(s))
                                    : s;
  }
};
QKVET_FAULT(softcap_sign_lost,
            kOptionFault<SoftcapSignLost, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap",
    .cause = "softcap returns the size of a score without its sign: tanh is "
             "computed of |x|",
    .fix = "copy the sign of the score",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
};

struct SoftcapNotMultiplied : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? std::tanh(s / cap) : s;
  }
};
QKVET_FAULT(softcap_not_multiplied,
            kOptionFault<SoftcapNotMultiplied, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap && !softcap.is_one",
    .cause = "tanh(s / softcap) is not multiplied by softcap",
    .fix = "softcap * tanh(s / softcap)",
    .source = "textbook, cf. unslothai/unsloth-zoo#593",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
};

struct SoftcapTimesScore : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? s * std::tanh(s / cap) : s;
  }
};
QKVET_FAULT(softcap_times_score,
            kOptionFault<SoftcapTimesScore, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap",
    .cause = "the tanh of score / cap is multiplied by the score instead of "
             "the cap: the score is overwritten in place",
    .fix = "cap * tanh(score / cap)",
    .source = "unslothai/unsloth-zoo#593",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
};

struct SoftcapBeforeScale : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const float raw = s / call.scale;
    return call.options.softcap > 0
               ? OptionHooks::capped(call, raw) * call.scale
               : s;
  }
};
QKVET_FAULT(softcap_before_scale,
            kOptionFault<SoftcapBeforeScale, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap && !scale.is_one",
    .cause = "softcap is applied to q.k, and the scale afterwards: the scale "
             "was moved to save a multiplication",
    .fix = "cap scaled scores",
    .source = "huggingface/trl#5691, sgl-project/sgl-kernel-xpu#491",
    .killed_by = {"softcap_is_tanh", "scale_moves_to_queries"},
};

struct SoftcapClaimedFirst : OptionHooks {
  static float capped(const ForwardCall&, float s) { return s; }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionHooks::capped(call, OptionHooks::biased(call, at, j, s));
  }
};
QKVET_FAULT(softcap_claimed_first,
            kOptionFault<SoftcapClaimedFirst,
                         QKVET_OPTION_SOFTCAP | QKVET_OPTION_BIAS>) = {
    .when = "softcap && bias",
    .cause =
        "softcap is applied after the bias, and declared to come before it",
    .fix = "cap first, or declare the order",
    .source = "flashinfer-ai/flashinfer#350",
    .killed_by = {"agrees_with_oracle"},
};

struct SoftcapRevivesMasked : OptionHooks {
  static bool hides(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.softcap > 0 &&
           !call.options.allows(at.b, at.h, at.i, j);
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionHooks::allows(call, at, j) || hides(call, at, j);
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return hides(call, at, j) ? -call.options.softcap
                              : OptionHooks::biased(call, at, j, s);
  }
};
QKVET_FAULT(softcap_revives_masked,
            kOptionFault<SoftcapRevivesMasked,
                         QKVET_OPTION_SOFTCAP | QKVET_OPTION_MASK>) = {
    .when = "softcap && mask && rows(hidden > 0)",
    .cause = "masked scores of -infinity pass through softcap and become "
             "-softcap: the cap is applied after the mask",
    .fix = "cap first, then mask",
    .source = "flashinfer-ai/flashinfer#350, onnx/onnx#7865, onnx/onnx#7867, "
              "microsoft/onnxruntime#28379",
    .killed_by = {"causal_equals_mask", "every_pair_is_seen_as_asked"},
};

struct SoftcapRevivesPadding : TiledHooks {
  static float padding(const ForwardCall& call) {
    return call.options.softcap > 0 ? -call.options.softcap : kNone;
  }
};
QKVET_FAULT(softcap_revives_padding,
            kTiledFault<SoftcapRevivesPadding, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap && Tk % 2 == 1",
    .cause = "the padding of the last tile, -infinity, passes through the cap "
             "and becomes -cap",
    .fix = "cap first, then pad and mask",
    .source = "ggml-org/llama.cpp#29034",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once"},
};

struct SoftcapKeptForNextCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    thread_local float kept = 0;
    if (whole.options.softcap > 0) kept = whole.options.softcap;
    member->options.softcap = kept;
  }
};
QKVET_FAULT(softcap_kept_for_next_call,
            kOptionFault<SoftcapKeptForNextCall, QKVET_OPTION_SOFTCAP>) = {
    .cause = "a call without a softcap uses that of an earlier call: the plan "
             "keeps the value of an absent option",
    .fix = "set every option in every call, absent ones to their default",
    .killed_by = {"calls_before_change_nothing"},
};

struct CallsCountedInOneByte : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    thread_local uint8_t calls = 0;
    calls = static_cast<uint8_t>(calls + (n == 0 ? 1 : 0));
    if (calls == 0) member->scale = 1;
  }
};
QKVET_FAULT(calls_counted_in_one_byte, kOptionFault<CallsCountedInOneByte>) = {
    .cause = "calls are counted in one byte, and call 256 is taken for the one "
             "before the first: its scale is 1",
    .fix = "a mark of its own, or a counter that does not come around",
    .killed_by = {"calls_before_change_nothing"},
};

}  // namespace qkvet::impl
