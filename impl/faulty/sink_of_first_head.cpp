// SPDX-License-Identifier: Apache-2.0
// faulty/sink_of_first_head: one sink for all heads.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SinkOfFirstHead : OptionSeams {
  static float sink(const ForwardCall& call, int64_t) {
    return call.options.sink_of(0);
  }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "all heads use the sink of head 0",
    .symptom = "right for a model whose sinks are equal",
    .cause = "the sink read as one number",
    .fix = "index it by the query head",
    .source = "textbook, cf. ROCm/rocm-libraries#12227",
    .trigger = "H > 1, and sinks that differ",
    .killed_by = kKilledBy,
    .when = "sink && H > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sink_of_first_head =
    option_fault<SinkOfFirstHead, QKVET_OPTION_SINK>(
        "faulty/sink_of_first_head", &kFault,
        {"impl/faulty/sink_of_first_head.cpp", __LINE__});

}  // namespace qkvet::impl
