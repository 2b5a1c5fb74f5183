// SPDX-License-Identifier: Apache-2.0
// faulty/backward_key_scale_missing: dk is not multiplied by the scale.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct KeyScaleMissing : PlainBackward {
  static float key_scale(const ForwardCall&) { return 1; }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "dq is multiplied by the scale and dk is not",
    .symptom =
        "dk is too large by sqrt(d), which optimisers that normalise gradients "
        "hide",
    .cause =
        "one kernel folds the scale into q in front of the product, the other "
        "does not",
    .fix = "multiply dq and dk by the scale, each once",
    .source = "textbook, cf. Dao-AILab/flash-attention#2651",
    .trigger = "the scale is not 1",
    .killed_by = kKilledBy,
    .when = "!scale.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_key_scale_missing =
    backward_fault<KeyScaleMissing>(
        "faulty/backward_key_scale_missing", &kFault,
        {"impl/faulty/backward_key_scale_missing.cpp", __LINE__});

}  // namespace qkvet::impl
