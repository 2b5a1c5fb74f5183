// SPDX-License-Identifier: Apache-2.0
// faulty/no_max_subtraction: exp of the bare scores.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct NoMaxSubtraction : PlainSeams {
  static float shift(float) { return 0; }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the row maximum is not subtracted before exp",
    .symptom =
        "NaN as soon as a score passes 88, and when all scores of a row are "
        "below -103",
    .cause = "softmax written as exp(s) / sum(exp(s))",
    .fix = "subtract the maximum of the row from its scores before exp",
    .source = "textbook",
    .trigger = "a scaled score above 88.7, or a whole row below -103",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_no_max_subtraction =
    faulty_kernel<NoMaxSubtraction>(
        "faulty/no_max_subtraction", &kFault,
        {"impl/faulty/no_max_subtraction.cpp", __LINE__});

}  // namespace qkvet::impl
