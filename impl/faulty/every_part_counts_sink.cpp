// SPDX-License-Identifier: Apache-2.0
// faulty/every_part_counts_sink: every part counts the sink.
#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

struct EveryPartCountsSink : SplitSeams {
  static float sinks(int64_t parts) { return static_cast<float>(parts); }
};

constexpr const char* kKilledBy[] = {"sink_joins_the_denominator",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each part adds the sink to its own denominator, and the merge adds "
        "the parts",
    .symptom =
        "one part is right; the more the keys are split, the more the sink "
        "takes",
    .cause = "the code that finishes a row finishes each of its parts",
    .fix = "let one part count it, or the merge",
    .source = "ROCm/rocm-libraries#12227",
    .trigger = "a sink, and keys in two parts",
    .killed_by = kKilledBy,
    .when = "sink && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_every_part_counts_sink =
    split_fault<EveryPartCountsSink, QKVET_OPTION_SINK>(
        "faulty/every_part_counts_sink", &kFault,
        {"impl/faulty/every_part_counts_sink.cpp", __LINE__});

}  // namespace qkvet::impl
