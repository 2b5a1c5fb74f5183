// SPDX-License-Identifier: Apache-2.0
// faulty/backward_softcap_slope_missing: the derivative of the softcap is left
// out.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapSlopeMissing : PlainBackward {
  static float slope(const ForwardCall&, float) { return 1; }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "dq and dk are those of scores without a softcap, at weights with one",
    .symptom =
        "right where scores are small; large scores get gradients that should "
        "vanish",
    .cause = "forward caps the scores, and backward knows of weights alone",
    .fix = "multiply ds by 1 - tanh^2",
    .source = "textbook",
    .trigger = "a softcap",
    .killed_by = kKilledBy,
    .when = "softcap",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_softcap_slope_missing =
    backward_fault<SoftcapSlopeMissing, QKVET_OPTION_SOFTCAP>(
        "faulty/backward_softcap_slope_missing", &kFault,
        {"impl/faulty/backward_softcap_slope_missing.cpp", __LINE__});

}  // namespace qkvet::impl
