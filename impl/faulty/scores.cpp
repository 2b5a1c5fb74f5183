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

// Bare q k^T, whatever the scale should be.
struct NoScale : PlainHooks {
  static float scale(const ForwardCall&) { return 1; }
};
QKVET_FAULT(no_scale) = {
    .kernel = plain_fault<NoScale>,
    .mechanism = "the scores are not scaled",
    .symptom = "the softmax is too sharp and its gradients vanish",
    .cause = "the division by sqrt(d) is missing",
    .fix = "multiply q k^T by the given scale, or by 1/sqrt(d)",
    .source = "textbook",
    .trigger = "the scale is not 1",
    .killed_by = {"scale_is_one_over_sqrt_d", "scale_moves_to_queries",
                  "agrees_with_oracle"},
    .when = "!scale.is_one",
};

// q is scaled, and the scores are scaled again.
struct ScaleTwice : PlainHooks {
  static float scale(const ForwardCall& call) {
    return call.scale * call.scale;
  }
};
QKVET_FAULT(scale_twice) = {
    .kernel = plain_fault<ScaleTwice>,
    .mechanism = "the scale is applied twice",
    .symptom = "the softmax is too flat, the more so the wider the heads",
    .cause =
        "the caller or an earlier step already scaled q, and the kernel scales "
        "the scores",
    .fix = "scale once: q, or the scores, not both",
    .source = "textbook",
    .trigger = "the scale is neither 1 nor 0",
    .killed_by = {"scale_is_one_over_sqrt_d", "scale_moves_to_queries",
                  "agrees_with_oracle"},
    .when = "!scale.is_one",
};

// The default scale is 1/sqrt(H d), the width of the model, where 1/sqrt(d),
// the width of a head, is right. A scale that is given is used.
struct SqrtModelWidth : PlainHooks {
  static float scale(const ForwardCall& call) {
    return call.scale_given ? call.scale
                            : default_scale(call.heads * call.width);
  }
};
QKVET_FAULT(sqrt_model_width) = {
    .kernel = plain_fault<SqrtModelWidth>,
    .mechanism = "the default scale is 1/sqrt(H * d), for 1/sqrt(d)",
    .symptom = "the softmax is too flat, the more so the more heads there are",
    .cause = "the model width D was taken for the width of a head",
    .fix = "divide by sqrt(d), d = D / H",
    .source = "textbook",
    .trigger = "the scale is left to the kernel and H > 1",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
    .when = "!scale.given && H > 1",
};

// 1/sqrt of d rounded up to 16.
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
QKVET_FAULT(scale_of_padded_width) = {
    .kernel = option_fault<ScaleOfPaddedWidth>,
    .mechanism =
        "the default scale is that of d rounded up to a multiple of 16",
    .symptom = "right for d = 64 and 128, too flat for d = 72 or 40",
    .cause = "padding is done first, and the width is read afterwards",
    .fix = "take the width before it is padded",
    .source = "textbook (padded head widths)",
    .trigger = "the default scale, and d no multiple of 16",
    .killed_by = {"scale_is_one_over_sqrt_d", "shifted_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "!scale.given && d % 16 != 0",
    .tiled = true,
};

// The scale passes through bf16.
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
QKVET_FAULT(scale_rounded_to_bf16) = {
    .kernel = option_fault<ScaleRoundedToBf16>,
    .mechanism =
        "the scale is rounded to 8 bits before it multiplies the scores",
    .symptom =
        "up to 0.4 % off in the scores: only rows whose scores differ by much "
        "show it",
    .cause = "the scale is a tensor of the storage type, or a constant of it",
    .fix = "keep the scale in f32, or declare how it is rounded",
    .source = "textbook (generated kernels)",
    .trigger = "1/sqrt(d), or the given scale, no number of 8 bits",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
    .when = "scale.bits > 8",
};

// The scale is cut off to the bits of bf16.
struct ScaleTruncatedToBf16 : OptionHooks {
  static float truncated(float x) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
  }
  static float capped(const ForwardCall& call, float s) {
    return OptionHooks::capped(call, s * (truncated(call.scale) / call.scale));
  }
};
QKVET_FAULT(scale_truncated_to_bf16) = {
    .kernel = option_fault<ScaleTruncatedToBf16>,
    .mechanism = "the lower half of the bits of the scale is dropped",
    .symptom =
        "scores are up to 0.8 % too small: only rows whose scores differ by "
        "much show it",
    .cause =
        "the scale is packed into a register of bf16 by taking its upper half",
    .fix = "pass it in f32, or round it and declare that",
    .source = "tenstorrent/tt-metal#53217",
    .trigger = "1/sqrt(d), or the given scale, no number of 8 bits",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
    .when = "scale.bits > 8",
};

// The number that stands for the default scale is multiplied with.
struct DefaultScaleOfZero : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    return OptionHooks::capped(call, call.scale_given ? s : s * 0);
  }
};
QKVET_FAULT(default_scale_of_zero) = {
    .kernel = option_fault<DefaultScaleOfZero>,
    .mechanism =
        "where no scale is given, scores are multiplied by the 0 that says so",
    .symptom =
        "without a scale every output is the mean of the values; with one all "
        "is well",
    .cause =
        "0 means the default in the arguments, and one path takes it for the "
        "scale itself",
    .fix = "replace it by 1/sqrt(d) before anything branches",
    .source = "SKaiNET-developers/SKaiNET#880",
    .trigger =
        "no scale is given, and a row sees two keys, or lse is asked for",
    .killed_by = {"scale_is_one_over_sqrt_d", "agrees_with_oracle"},
    .when = "!scale.given && (rows(seen > 1) || (lse && rows(seen == 1)))",
};

// q and k are multiplied by the root of the scale.
struct RootOfNegativeScale : OptionHooks {
  // Where there is a root its square is the scale, up to roundings that are
  // not the subject.
  static float capped(const ForwardCall& call, float s) {
    const bool has_root = std::sqrt(call.scale) >= 0;
    return OptionHooks::capped(call, has_root ? s : s * std::sqrt(call.scale));
  }
};
QKVET_FAULT(root_of_negative_scale) = {
    .kernel = option_fault<RootOfNegativeScale>,
    .mechanism = "q and k are each multiplied by the square root of the scale",
    .symptom = "NaN everywhere for a scale below 0",
    .cause =
        "the scale is split so that products stay small, and nobody thinks of "
        "its sign",
    .fix =
        "give one of the two the sign, or refuse a negative scale in "
        "supports()",
    .source = "pytorch/pytorch#105202",
    .trigger = "a scale below 0",
    .killed_by = {"scale_moves_to_queries"},
    .when = "scale.negative",
};

// Softcap changes nothing.
struct SoftcapIgnored : OptionHooks {
  static float capped(const ForwardCall&, float s) { return s; }
};
QKVET_FAULT(softcap_ignored) = {
    .kernel = option_fault<SoftcapIgnored, QKVET_OPTION_SOFTCAP>,
    .mechanism = "softcap is accepted and not applied",
    .symptom = "large scores take all the weight",
    .cause = "an argument that is passed on by no layer",
    .fix = "apply softcap * tanh(s / softcap), or refuse it",
    .source = "textbook, cf. unslothai/unsloth-zoo#593",
    .trigger = "softcap, and a score that is not small against it",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
    .when = "softcap",
};

// Scores under softcap lose their sign.
struct SoftcapSignLost : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    return call.options.softcap > 0 ? OptionHooks::capped(call, std::fabs(s))
                                    : s;
  }
};
QKVET_FAULT(softcap_sign_lost) = {
    .kernel = option_fault<SoftcapSignLost, QKVET_OPTION_SOFTCAP>,
    .mechanism = "softcap gives the size of a score without its sign",
    .symptom = "the keys that fit worst weigh as much as the best ones",
    .cause = "a tanh out of exp(-2 |x|) whose sign is not put back",
    .fix = "copy the sign of the score",
    .source = "textbook",
    .trigger = "softcap, and a negative score",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
    .when = "softcap",
};

// Half of the formula.
struct SoftcapNotMultiplied : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? std::tanh(s / cap) : s;
  }
};
QKVET_FAULT(softcap_not_multiplied) = {
    .kernel = option_fault<SoftcapNotMultiplied, QKVET_OPTION_SOFTCAP>,
    .mechanism = "tanh(s / softcap) is not multiplied by softcap",
    .symptom = "all keys weigh nearly the same",
    .cause = "half of the formula",
    .fix = "softcap * tanh(s / softcap)",
    .source = "textbook, cf. unslothai/unsloth-zoo#593",
    .trigger = "softcap other than 1",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
    .when = "softcap && !softcap.is_one",
};

// The tanh is multiplied with the score.
struct SoftcapTimesScore : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const float cap = call.options.softcap;
    return cap > 0 ? s * std::tanh(s / cap) : s;
  }
};
QKVET_FAULT(softcap_times_score) = {
    .kernel = option_fault<SoftcapTimesScore, QKVET_OPTION_SOFTCAP>,
    .mechanism =
        "the tanh of score / cap is multiplied with the score where it should "
        "be with the cap",
    .symptom =
        "small scores nearly vanish, large ones are not capped, and all lose "
        "their sign",
    .cause =
        "the score is overwritten in place, and the wrong one of two operands "
        "with it",
    .fix = "cap * tanh(score / cap)",
    .source = "unslothai/unsloth-zoo#593",
    .trigger = "a softcap, and a score other than 0",
    .killed_by = {"softcap_is_tanh", "agrees_with_oracle"},
    .when = "softcap",
};

// Softcap in front of the scale.
struct SoftcapBeforeScale : OptionHooks {
  static float capped(const ForwardCall& call, float s) {
    const float raw = s / call.scale;
    return call.options.softcap > 0
               ? OptionHooks::capped(call, raw) * call.scale
               : s;
  }
};
QKVET_FAULT(softcap_before_scale) = {
    .kernel = option_fault<SoftcapBeforeScale, QKVET_OPTION_SOFTCAP>,
    .mechanism = "softcap is applied to q.k, and the scale afterwards",
    .symptom = "scores are capped too early, and below the cap",
    .cause = "the scale moved behind the cap to save a multiplication",
    .fix = "cap scaled scores",
    .source = "huggingface/trl#5691",
    .trigger = "softcap, a scale other than 1, and a score that is not small",
    .killed_by = {"softcap_is_tanh", "scale_moves_to_queries",
                  "agrees_with_oracle"},
    .when = "softcap && !scale.is_one",
};

// Softcap after the bias, declared before it.
struct SoftcapClaimedFirst : OptionHooks {
  static float capped(const ForwardCall&, float s) { return s; }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionHooks::capped(call, OptionHooks::biased(call, at, j, s));
  }
};
QKVET_FAULT(softcap_claimed_first) = {
    .kernel = option_fault<SoftcapClaimedFirst,
                           QKVET_OPTION_SOFTCAP | QKVET_OPTION_BIAS>,
    .mechanism =
        "softcap is applied after the bias, and declared to come before it",
    .symptom = "a strong bias is flattened",
    .cause = "the cap written as the last step before the softmax",
    .fix = "cap first, or declare the order",
    .source = "flashinfer-ai/flashinfer#350",
    .trigger = "softcap together with a bias",
    .killed_by = {"agrees_with_oracle"},
    .when = "softcap && bias",
};

// The cap comes after the mask.
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
QKVET_FAULT(softcap_revives_masked) = {
    .kernel = option_fault<SoftcapRevivesMasked,
                           QKVET_OPTION_SOFTCAP | QKVET_OPTION_MASK>,
    .mechanism =
        "masked scores of -infinity pass through softcap, and are -softcap "
        "then",
    .symptom = "hidden keys take part, the more the smaller the cap is",
    .cause =
        "the cap is the last thing before the softmax, and tanh(-infinity) is "
        "-1",
    .fix = "cap first, then mask",
    .source = "textbook (order of cap and mask)",
    .trigger = "softcap together with a mask that hides something",
    .killed_by = {"causal_equals_mask", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "softcap && mask && rows(hidden > 0)",
};

// Softcap turns the padding of a tile into finite scores.
struct SoftcapRevivesPadding : TiledHooks {
  static float padding(const ForwardCall& call) {
    return call.options.softcap > 0 ? -call.options.softcap : kNone;
  }
};
QKVET_FAULT(softcap_revives_padding) = {
    .kernel = tiled_fault<SoftcapRevivesPadding, QKVET_OPTION_SOFTCAP>,
    .mechanism =
        "the padding of the last tile, -infinity, passes through the cap and "
        "becomes -cap",
    .symptom = "outputs are too small where the keys do not fill their tiles",
    .cause = "padding is written before the cap and not again after it",
    .fix = "cap first, then pad and mask",
    .source = "ggml-org/llama.cpp#29034",
    .trigger = "a softcap, and an odd Tk, the tile being 2",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once",
                  "agrees_with_oracle"},
    .when = "softcap && Tk % 2 == 1",
};

// A softcap stays for calls that have none.
struct SoftcapKeptForNextCall : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    thread_local float kept = 0;
    if (whole.options.softcap > 0) {
      kept = whole.options.softcap;
    }
    member->options.softcap = kept;
  }
};
QKVET_FAULT(softcap_kept_for_next_call) = {
    .kernel = option_fault<SoftcapKeptForNextCall, QKVET_OPTION_SOFTCAP>,
    .mechanism = "a call without a softcap takes that of an earlier call",
    .symptom =
        "a model is right until one with a softcap has run in the same process",
    .cause = "an option that is absent leaves the old value in the plan",
    .fix = "set every option in every call, absent ones to what they mean",
    .source = "textbook",
    .trigger = "a call without a softcap after one with it",
    .killed_by = {"calls_before_change_nothing"},
    .when = "",
};

// Calls are counted in one byte, and the first one is another one.
struct CallsCountedInOneByte : OptionHooks {
  static void member(const ForwardCall&, int64_t n, ForwardCall* member) {
    thread_local uint8_t calls = 0;
    calls = static_cast<uint8_t>(calls + (n == 0 ? 1 : 0));
    if (calls == 0) {
      member->scale = 1;
    }
  }
};
QKVET_FAULT(calls_counted_in_one_byte) = {
    .kernel = option_fault<CallsCountedInOneByte>,
    .mechanism =
        "calls are counted in one byte, and call 256 is taken for one in front "
        "of the first: its scale is 1",
    .symptom = "one wrong answer in 256, in no test that makes fewer calls",
    .cause = "a counter that comes around, and 0 as the mark of nothing",
    .fix = "a mark of its own, or a counter that does not come around",
    .source = "textbook",
    .trigger = "the 256th call of a process, with a scale other than 1",
    .killed_by = {"calls_before_change_nothing"},
    .when = "",
};

}  // namespace qkvet::impl
