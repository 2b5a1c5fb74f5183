// SPDX-License-Identifier: Apache-2.0
// faulty/bias_dropped_when_broadcast: a bias with stride 0 counts as none.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct BiasDroppedWhenBroadcast : OptionSeams {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const bool broadcast = call.options.bias.step[2] == 0 && call.queries > 1;
    return broadcast ? s : OptionSeams::biased(call, at, j, s);
  }
};

constexpr const char* kKilledBy[] = {"broadcast_equals_materialised",
                                     "bias_alone_decides", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a bias that is broadcast over rows is left out",
    .symptom = "right with a bias that is written out, wrong with its view",
    .cause = "stride 0 taken for the mark of an absent tensor",
    .fix = "tell absent tensors by their data, and follow stride 0",
    .source = "textbook",
    .trigger = "Tq > 1, and a bias of one row",
    .killed_by = kKilledBy,
    .when = "bias && !bias.rows && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_bias_dropped_when_broadcast =
    option_fault<BiasDroppedWhenBroadcast, QKVET_OPTION_BIAS>(
        "faulty/bias_dropped_when_broadcast", &kFault,
        {"impl/faulty/bias_dropped_when_broadcast.cpp", __LINE__});

}  // namespace qkvet::impl
