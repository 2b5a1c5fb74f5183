// SPDX-License-Identifier: Apache-2.0
// faulty/sink_claimed_in_lse: lse without the sink, declared with it.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SinkClaimedInLse : OptionSeams {
  static float lse(float max, float sum, float sink) {
    return max + std::log(sum - std::exp(sink - max));
  }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "lse leaves the sink out, and is declared to include it",
    .symptom = "parts merged by it are too light against the sink",
    .cause = "lse computed from the scores, o from the scores and the sink",
    .fix = "compute it from the sum that o is divided by, or declare it",
    .source = "deepseek-ai/FlashMLA#106",
    .trigger = "a sink, and lse is asked for",
    .killed_by = kKilledBy,
    .when = "sink && lse",
};

}  // namespace

extern constinit const qkvet_kernel faulty_sink_claimed_in_lse =
    option_fault<SinkClaimedInLse, QKVET_OPTION_SINK>(
        "faulty/sink_claimed_in_lse", &kFault,
        {"impl/faulty/sink_claimed_in_lse.cpp", __LINE__});

}  // namespace qkvet::impl
