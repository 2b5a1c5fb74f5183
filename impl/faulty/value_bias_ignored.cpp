// SPDX-License-Identifier: Apache-2.0
// faulty/value_bias_ignored: v is projected without its bias.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct ValueBiasIgnored : PlainLayer {
  static bool bias(Role role) { return role != Role::kValue; }
};

constexpr const char* kKilledBy[] = {"every_bias_counts",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "b_V is not added",
    .symptom = "y is off by the same row b_V W_O everywhere",
    .cause = "one of four biases is not passed on",
    .fix = "add b_V to the projection of the values",
    .source = "textbook",
    .trigger = "a b_V that is given and not zero",
    .killed_by = kKilledBy,
    .when = "b_v",
};

}  // namespace

extern constinit const qkvet_kernel faulty_value_bias_ignored =
    faulty_layer<ValueBiasIgnored>(
        "faulty/value_bias_ignored", &kFault,
        {"impl/faulty/value_bias_ignored.cpp", __LINE__});

}  // namespace qkvet::impl
