// SPDX-License-Identifier: Apache-2.0
// faulty/layer_weights_unnormalised: the weights that are returned are not
// divided.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct LayerWeightsUnnormalised : PlainLayer {
  static double weight(double exponential, double) { return exponential; }
};

constexpr const char* kKilledBy[] = {"layer_weights_sum_to_one",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "exp(score - largest score) is returned for the weight",
    .symptom =
        "the output is right; the weights of a row add up to more than one",
    .cause =
        "the sum is divided out at the end, when the weights are long stored",
    .fix = "divide what is returned by the sum of its row",
    .source = "textbook",
    .trigger = "weights, and a row that sees more than one key",
    .killed_by = kKilledBy,
    .when = "Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_weights_unnormalised =
    faulty_layer<LayerWeightsUnnormalised>(
        "faulty/layer_weights_unnormalised", &kFault,
        {"impl/faulty/layer_weights_unnormalised.cpp", __LINE__});

}  // namespace qkvet::impl
