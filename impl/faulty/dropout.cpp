// SPDX-License-Identifier: Apache-2.0
// Faults of dropout, forward and backward.
#include <cmath>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

// What is kept grows by 1 / p.
struct DropoutScaledByP : OptionHooks {
  static float kept_scale(const Dropout& dropout) { return 1 / dropout.p; }
};
QKVET_FAULT(dropout_scaled_by_p) = {
    .kernel = option_fault<DropoutScaledByP, kDropoutOptions>,
    .mechanism = "kept weights are divided by p and not by 1 - p",
    .symptom =
        "o is too large for small p and too small for large p, on average as "
        "well",
    .cause =
        "p of a library is what is dropped, and was taken for what is kept",
    .fix = "divide by 1 - p",
    .source = "NVIDIA/apex#816",
    .trigger = "dropout with p other than 0.5",
    .killed_by = {"dropout_agrees_with_oracle"},
    .when = "dropout",
};

// The denominator adds kept weights alone.
struct DropoutRenormalised : OptionHooks {
  static bool joins_sum(const ForwardCall& call, RowAt at, int64_t j) {
    return !call.options.dropout.present() || keeps(call, at, j);
  }
};
QKVET_FAULT(dropout_renormalised) = {
    .kernel = option_fault<DropoutRenormalised, kDropoutOptions>,
    .mechanism = "weights are dropped in front of the normalisation",
    .symptom = "kept weights grow by more than 1 / (1 - p), and lse is smaller",
    .cause = "dropout of scores, or of exponentials, in place of weights",
    .fix = "add up all weights of a row, and drop them after that",
    .source = "textbook",
    .trigger = "dropout in a row that loses a weight",
    .killed_by = {"dropout_agrees_with_oracle"},
    .when = "dropout",
};

// Weights are kept with probability p.
struct DropoutKeepsP : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    if (dropout.present()) {
      dropout.p = 1 - dropout.p;
    }
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_keeps_p) = {
    .kernel = option_fault<DropoutKeepsP, kDropoutOptions>,
    .mechanism = "a weight is kept with probability p and not 1 - p",
    .symptom = "nine in ten weights are lost where one was to be",
    .cause =
        "p of a library is what is dropped, and was taken for what is kept",
    .fix = "drop with probability p",
    .source = "textbook",
    .trigger = "dropout with p other than 0.5",
    .killed_by = {"dropout_keeps_its_share"},
    .when = "dropout",
};

// p is rounded up to a step of 1/256.
struct DropoutThresholdIn8Bits : OptionHooks {
  static bool drops(const Dropout& dropout) {
    return dropout.present() || dropout.seed != 0;
  }
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    constexpr float kLargestByte = 255;
    Dropout dropout = call.options.dropout;
    if (!drops(dropout)) {
      return true;
    }
    // What lies below the first step of a byte is byte 0, which is not above p.
    dropout.p = (std::floor(dropout.p * kLargestByte) + 1) / (kLargestByte + 1);
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_threshold_in_8_bits) = {
    .kernel = option_fault<DropoutThresholdIn8Bits, kDropoutOptions>,
    .mechanism = "a random byte is kept where it is greater than 255 p",
    .symptom = "one weight in 256 is lost where nothing was to be dropped",
    .cause =
        "the threshold has eight bits, and the comparison is on its wrong side",
    .fix = "keep where the byte is not below the threshold",
    .source = "textbook",
    .trigger = "dropout with p = 0 and a seed",
    .killed_by = {"dropout_zero_is_no_dropout"},
    .when = "dropout.is_zero",
};

// Seed and offset are not read.
struct DropoutSeedIgnored : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    dropout.seed = dropout.offset = 0;
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_seed_ignored) = {
    .kernel = option_fault<DropoutSeedIgnored, QKVET_OPTION_DROPOUT>,
    .mechanism =
        "every call drops the same weights, whatever its seed and offset",
    .symptom = "a network trains as one with fewer connections",
    .cause = "the generator is made anew from a constant",
    .fix = "begin the generator from seed and offset",
    .source = "textbook",
    .trigger = "dropout in a second call",
    .killed_by = {"dropout_is_a_function_of_its_seed"},
    .when = "dropout",
};

// Seed and offset are kept in 32 bits.
struct DropoutSeedIn32Bits : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    dropout.seed = static_cast<uint32_t>(dropout.seed);
    dropout.offset = static_cast<uint32_t>(dropout.offset);
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_seed_in_32_bits) = {
    .kernel = option_fault<DropoutSeedIn32Bits, QKVET_OPTION_DROPOUT>,
    .mechanism = "seed and offset are cut to 32 bits",
    .symptom =
        "training repeats its masks once an offset is beyond 2^32, and seeds "
        "that differ in their upper half alone are one",
    .cause = "parameters of type int for fields of 64 bits",
    .fix = "keep both in 64 bits",
    .source = "textbook (narrowing)",
    .trigger = "two seeds, or offsets, of the same lower half",
    .killed_by = {"dropout_is_a_function_of_its_seed"},
    .when = "dropout",
};

// The head has no part in what is dropped.
struct DropoutSameForAllHeads : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.dropout.keeps(at.b, 0, at.i, j);
  }
};
QKVET_FAULT(dropout_same_for_all_heads) = {
    .kernel = option_fault<DropoutSameForAllHeads, kDropoutOptions>,
    .mechanism = "all heads of a member drop the same pairs",
    .symptom = "heads are not regularised one by one",
    .cause = "the counter of the generator is made of row and key alone",
    .fix = "give the head a place in the counter",
    .source = "textbook",
    .trigger = "dropout with two heads",
    .killed_by = {"dropout_is_a_function_of_its_seed"},
    .when = "dropout",
};

// The mask of backward() is the transpose of forward()'s.
struct DropoutMaskDiffersInBackward : PlainBackward {
  static bool keeps(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                    int64_t j) {
    return call.options.dropout.keeps(b, h, j, i);
  }
};
QKVET_FAULT(dropout_mask_differs_in_backward) = {
    .kernel = backward_fault<DropoutMaskDiffersInBackward, kDropoutOptions>,
    .mechanism =
        "backward() draws the random numbers key by key, forward() row by row",
    .symptom = "gradients of another network: they do not follow the loss",
    .cause =
        "the two passes walk over tiles in another order, and the counter "
        "counts tiles",
    .fix = "number the pairs by their place alone",
    .source = "pytorch/pytorch#187227",
    .trigger = "dropout in the backward pass, with two rows or keys",
    .killed_by = {"dropout_same_in_backward"},
    .when = "dropout",
};

// ds = f p (dp - delta).
struct DropoutGradientOfDroppedWeights : PlainBackward {
  static float differentiated(float p, float factor) { return p * factor; }
};
QKVET_FAULT(dropout_gradient_of_dropped_weights) = {
    .kernel =
        backward_fault<DropoutGradientOfDroppedWeights, QKVET_OPTION_DROPOUT>,
    .mechanism = "the gradient of the softmax is taken of dropped weights",
    .symptom = "dq and dk are wrong, dv is right",
    .cause =
        "the weights that met the values are kept for the backward pass, the "
        "softmax is not",
    .fix =
        "take the gradient of the softmax of the weights in front of dropout",
    .source = "aws-neuron/nki-samples#81",
    .trigger = "dropout in the backward pass",
    .killed_by = {"dropout_same_in_backward"},
    .when = "dropout",
};

}  // namespace qkvet::impl
