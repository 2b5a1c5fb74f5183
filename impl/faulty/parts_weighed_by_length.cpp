// SPDX-License-Identifier: Apache-2.0
// faulty/parts_weighed_by_length: parts are weighed by their number of keys.
#include <cmath>

#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

struct PartsWeighedByLength : SplitSeams {
  static void stored(const ForwardCall&, SplitPart* part) {
    part->lse = std::log(static_cast<float>(part->seen));
  }
};

constexpr const char* kKilledBy[] = {"split_and_merge_by_lse",
                                     "scale_is_one_over_sqrt_d",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "parts of the keys are merged by how many keys they have, not by their "
        "lse",
    .symptom =
        "right where all scores are alike; else a part of little weight counts "
        "as much as the others",
    .cause = "the mean of softmaxes taken for the softmax of all",
    .fix = "weigh each part by exp(lse of the part - lse)",
    .source = "textbook",
    .trigger = "two keys with different scores, or lse of a row with one",
    .killed_by = kKilledBy,
    .when = "rows(seen > 1) || (lse && rows(seen == 1))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_parts_weighed_by_length =
    split_fault<PartsWeighedByLength>(
        "faulty/parts_weighed_by_length", &kFault,
        {"impl/faulty/parts_weighed_by_length.cpp", __LINE__});

}  // namespace qkvet::impl
