// SPDX-License-Identifier: Apache-2.0
// Faults of dropout, forward and backward.
#include <cmath>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {

struct DropoutScaledByP : OptionHooks {
  static float kept_scale(const Dropout& dropout) { return 1 / dropout.p; }
};
QKVET_FAULT(dropout_scaled_by_p,
            kOptionFault<DropoutScaledByP, kDropoutOptions>) = {
    .when = "dropout",
    .cause = "kept weights are divided by p instead of 1 - p: the probability "
             "to drop is taken for that to keep",
    .fix = "divide by 1 - p",
    .source = "NVIDIA/apex#816",
    .killed_by = {"dropout_agrees_with_oracle"},
};

struct DropoutRenormalised : OptionHooks {
  static float add(const ForwardCall& call, RowAt at, int64_t j, float sum,
                   float weight) {
    const bool dropped = call.options.dropout.present() && !keeps(call, at, j);
    return dropped ? sum : sum + weight;
  }
};
QKVET_FAULT(dropout_renormalised,
            kOptionFault<DropoutRenormalised, kDropoutOptions>) = {
    .when = "dropout",
    .cause = "weights are dropped before the normalisation: dropout is applied "
             "to scores or exponentials",
    .fix = "add up all weights of a row, and drop them after that",
    .killed_by = {"dropout_agrees_with_oracle"},
};

struct DropoutKeepsP : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    if (dropout.present()) dropout.p = 1 - dropout.p;
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_keeps_p, kOptionFault<DropoutKeepsP, kDropoutOptions>) = {
    .when = "dropout",
    .cause = "a weight is kept with probability p instead of 1 - p: the "
             "probability to drop is taken for that to keep",
    .fix = "drop with probability p",
    .killed_by = {"dropout_keeps_its_share"},
};

struct DropoutThresholdIn8Bits : OptionHooks {
  static bool drops(const Dropout& dropout) {
    return dropout.present() || dropout.seed != 0;
  }
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    constexpr float kLargestByte = 255;
    Dropout dropout = call.options.dropout;
    if (!drops(dropout)) return true;
    // What lies below the first step of a byte is byte 0, which is not above p.
    dropout.p = (std::floor(dropout.p * kLargestByte) + 1) / (kLargestByte + 1);
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_threshold_in_8_bits,
            kOptionFault<DropoutThresholdIn8Bits, kDropoutOptions>) = {
    .when = "dropout.is_zero",
    .cause = "a random byte is kept if it is greater than 255 p: the threshold "
             "has eight bits, and the comparison is on its wrong side",
    .fix = "keep where the byte is not below the threshold",
    .killed_by = {"dropout_zero_is_no_dropout"},
};

struct DropoutSeedIgnored : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    dropout.seed = dropout.offset = 0;
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_seed_ignored,
            kOptionFault<DropoutSeedIgnored, QKVET_OPTION_DROPOUT>) = {
    .when = "dropout",
    .cause = "every call drops the same weights, whatever its seed and offset: "
             "the generator starts from a constant",
    .fix = "begin the generator from seed and offset",
    .killed_by = {"dropout_is_a_function_of_its_seed"},
};

struct DropoutSeedIn32Bits : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    dropout.seed = static_cast<uint32_t>(dropout.seed);
    dropout.offset = static_cast<uint32_t>(dropout.offset);
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(dropout_seed_in_32_bits,
            kOptionFault<DropoutSeedIn32Bits, QKVET_OPTION_DROPOUT>) = {
    .when = "dropout",
    .cause = "seed and offset are cut to 32 bits: int parameters for fields of "
             "64 bits",
    .fix = "keep both in 64 bits",
    .killed_by = {"dropout_is_a_function_of_its_seed"},
};

struct DropoutSameForAllHeads : OptionHooks {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.dropout.keeps(at.b, 0, at.i, j);
  }
};
QKVET_FAULT(dropout_same_for_all_heads,
            kOptionFault<DropoutSameForAllHeads, kDropoutOptions>) = {
    .when = "dropout",
    .cause = "all heads of a batch element drop the same pairs: the "
             "generator's counter is made of row and key alone",
    .fix = "give the head a place in the counter",
    .killed_by = {"dropout_is_a_function_of_its_seed"},
};

struct DropoutMaskDiffersInBackward : PlainBackward {
  static bool keeps(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                    int64_t j) {
    return call.options.dropout.keeps(b, h, j, i);
  }
};
QKVET_FAULT(dropout_mask_differs_in_backward,
            kBackwardFault<DropoutMaskDiffersInBackward, kDropoutOptions>) = {
    .when = "dropout",
    .cause = "backward() draws the random numbers key by key, forward() row by "
             "row: the counter counts tiles",
    .fix = "number the pairs by their place alone",
    .source = "pytorch/pytorch#187227, Dao-AILab/flash-attention#1251",
    .killed_by = {"dropout_same_in_backward"},
};

struct DropoutGradientOfDroppedWeights : PlainBackward {
  static float differentiated(float p, float factor) { return p * factor; }
};
QKVET_FAULT(
    dropout_gradient_of_dropped_weights,
    kBackwardFault<DropoutGradientOfDroppedWeights, QKVET_OPTION_DROPOUT>) = {
    .when = "dropout",
    .cause = "the gradient of the softmax is taken of dropped weights: the "
             "undropped ones are not kept",
    .fix =
        "take the gradient of the softmax of the weights in front of dropout",
    .source = "aws-neuron/nki-samples#81",
    .killed_by = {"dropout_same_in_backward"},
};

}  // namespace qkvet::impl
