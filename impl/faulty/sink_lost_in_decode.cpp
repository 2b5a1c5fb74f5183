// SPDX-License-Identifier: Apache-2.0
// faulty/sink_lost_in_decode: with one query there is no sink.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SinkLostInDecode : OptionSeams {
  static float sink(const ForwardCall& call, int64_t h) {
    return call.queries == 1 ? kNone : OptionSeams::sink(call, h);
  }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "prefill_equals_decode",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the path for one query knows no sinks",
    .symptom =
        "prefill is right, decoding gives weights that sum to one without the"
        " sink",
    .cause = "a decode path of its own, written before sinks were",
    .fix = "the sink belongs to the denominator of every path",
    .source = "textbook (decode paths)",
    .trigger = "a sink, and Tq = 1",
    .killed_by = kKilledBy,
    .when = "sink && Tq == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sink_lost_in_decode =
    option_fault<SinkLostInDecode, QKVET_OPTION_SINK>(
        "faulty/sink_lost_in_decode", &kFault,
        {"impl/faulty/sink_lost_in_decode.cpp", __LINE__});

}  // namespace qkvet::impl
