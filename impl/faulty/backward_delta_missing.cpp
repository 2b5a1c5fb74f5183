// SPDX-License-Identifier: Apache-2.0
// faulty/backward_delta_missing: the gradient of the softmax lacks its row
// correction.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct DeltaMissing : PlainBackward {
  static float from_weight(float p, float dp, float /*delta*/) {
    return p * dp;
  }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "ds = p dp, without what all weights of a row share",
    .symptom =
        "dq and dk are wrong, dv is right; a number added to all scores of a "
        "row changes the loss",
    .cause = "the Jacobian of the softmax is taken for a diagonal matrix",
    .fix = "subtract the sum of do o from dp, row by row",
    .source = "textbook",
    .trigger = "rows whose sum of do o is not 0",
    .killed_by = kKilledBy,
    .when = "",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_delta_missing =
    backward_fault<DeltaMissing>(
        "faulty/backward_delta_missing", &kFault,
        {"impl/faulty/backward_delta_missing.cpp", __LINE__});

}  // namespace qkvet::impl
