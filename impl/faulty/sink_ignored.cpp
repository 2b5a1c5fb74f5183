// SPDX-License-Identifier: Apache-2.0
// faulty/sink_ignored: the sink changes nothing.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SinkIgnored : OptionSeams {
  static float sink(const ForwardCall&, int64_t) { return kNone; }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the sink is accepted and does not count",
    .symptom = "rows cannot attend to nothing",
    .cause = "an argument that is passed on by no layer",
    .fix = "begin the denominator with exp(sink - max), or refuse it",
    .source = "textbook, cf. ROCm/rocm-libraries#12227",
    .trigger = "a sink",
    .killed_by = kKilledBy,
    .when = "sink",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sink_ignored =
    option_fault<SinkIgnored, QKVET_OPTION_SINK>(
        "faulty/sink_ignored", &kFault,
        {"impl/faulty/sink_ignored.cpp", __LINE__});

}  // namespace qkvet::impl
