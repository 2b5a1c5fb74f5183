// SPDX-License-Identifier: Apache-2.0
// faulty/accumulator_not_rescaled: sums of values stay as they are when the
// maximum grows.
#include "impl/faulty/tiled_seams.h"

namespace qkvet::impl {
namespace {

struct AccumulatorNotRescaled : TiledSeams {
  static float rescaled(float sum, float) { return sum; }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one",
                                     "permuted_keys_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "when a tile raises the maximum, the denominator is rescaled and the "
        "sum of values is not",
    .symptom =
        "right where the largest score comes first; else early values weigh "
        "too much",
    .cause = "one of two running sums is left out of the correction",
    .fix = "multiply both by exp(old maximum - new maximum)",
    .source = "textbook",
    .trigger = "a later tile with a larger score",
    .killed_by = kKilledBy,
    .when = "rows(seen > 2)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_accumulator_not_rescaled =
    tiled_fault<AccumulatorNotRescaled>(
        "faulty/accumulator_not_rescaled", &kFault,
        {"impl/faulty/accumulator_not_rescaled.cpp", __LINE__});

}  // namespace qkvet::impl
