// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_gradient_of_dropped_weights: ds = f p (dp - delta).
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutGradientOfDroppedWeights : PlainBackward {
  static float differentiated(float p, float factor) { return p * factor; }
};

constexpr const char* kKilledBy[] = {"dropout_same_in_backward", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the gradient of the softmax is taken of dropped weights",
    .symptom = "dq and dk are wrong, dv is right",
    .cause =
        "the weights that met the values are kept for the backward pass, the "
        "softmax is not",
    .fix =
        "take the gradient of the softmax of the weights in front of dropout",
    .source = "aws-neuron/nki-samples#81",
    .trigger = "dropout in the backward pass",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_gradient_of_dropped_weights =
    backward_fault<DropoutGradientOfDroppedWeights, QKVET_OPTION_DROPOUT>(
        "faulty/dropout_gradient_of_dropped_weights", &kFault,
        {"impl/faulty/dropout_gradient_of_dropped_weights.cpp", __LINE__});

}  // namespace qkvet::impl
