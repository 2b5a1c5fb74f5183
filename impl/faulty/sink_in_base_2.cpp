// SPDX-License-Identifier: Apache-2.0
// faulty/sink_in_base_2: the sink is not taken to base 2.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SinkInBase2 : OptionSeams {
  static float sink(const ForwardCall& call, int64_t h) {
    constexpr float kLn2 = 0.693147181f;
    return call.options.sink_of(h) * kLn2;
  }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "scores are multiplied by log2(e) for exp2, and the sink is not",
    .symptom = "sinks work at 69 % of their strength",
    .cause = "the factor is folded into the scale, which the sink does not see",
    .fix = "multiply the sink by log2(e) as well",
    .source = "ROCm/rocm-libraries#12227",
    .trigger = "a sink other than 0",
    .killed_by = kKilledBy,
    .when = "sink",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sink_in_base_2 =
    option_fault<SinkInBase2, QKVET_OPTION_SINK>(
        "faulty/sink_in_base_2", &kFault,
        {"impl/faulty/sink_in_base_2.cpp", __LINE__});

}  // namespace qkvet::impl
