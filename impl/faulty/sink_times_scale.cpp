// SPDX-License-Identifier: Apache-2.0
// faulty/sink_times_scale: the sink is scaled like q.k.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SinkTimesScale : OptionSeams {
  // None stays none, whatever the sign of the scale.
  static float sink(const ForwardCall& call, int64_t h) {
    const float sink = call.options.sink_of(h);
    return sink > kNone ? sink * call.scale : sink;
  }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "scale_moves_to_queries",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the sink is multiplied by the scale",
    .symptom = "sinks work at a fraction of their strength",
    .cause = "the sink appended to the scores before they are scaled",
    .fix = "append it to the scaled scores",
    .source = "ROCm/rocm-libraries#12227",
    .trigger = "a sink other than 0, and a scale other than 1",
    .killed_by = kKilledBy,
    .when = "sink && !scale.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sink_times_scale =
    option_fault<SinkTimesScale, QKVET_OPTION_SINK>(
        "faulty/sink_times_scale", &kFault,
        {"impl/faulty/sink_times_scale.cpp", __LINE__});

}  // namespace qkvet::impl
