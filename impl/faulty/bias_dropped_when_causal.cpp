// SPDX-License-Identifier: Apache-2.0
// faulty/bias_dropped_when_causal: the causal path has no bias.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct BiasDroppedWhenCausal : OptionSeams {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return call.causal ? s : OptionSeams::biased(call, at, j, s);
  }
};

constexpr const char* kKilledBy[] = {"bias_alone_decides", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the causal path ignores the bias",
    .symptom = "the model loses its relative positions as soon as it decodes",
    .cause = "a fast path chosen by the causal flag alone",
    .fix = "take the fast path only without a bias",
    .source = "textbook, cf. pytorch/pytorch#187801",
    .trigger = "a bias together with the causal rule",
    .killed_by = kKilledBy,
    .when = "bias && causal",
};

}  // namespace

extern constinit const qkvet_kernel faulty_bias_dropped_when_causal =
    option_fault<BiasDroppedWhenCausal, QKVET_OPTION_BIAS>(
        "faulty/bias_dropped_when_causal", &kFault,
        {"impl/faulty/bias_dropped_when_causal.cpp", __LINE__});

}  // namespace qkvet::impl
