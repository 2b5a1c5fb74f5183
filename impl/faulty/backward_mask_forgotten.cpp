// SPDX-License-Identifier: Apache-2.0
// faulty/backward_mask_forgotten: the mask is left out of the backward pass.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct MaskForgotten : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t, int64_t, int64_t i,
                   int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end;
  }
};

constexpr const char* kKilledBy[] = {"backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "weights are computed once more from lse, and hidden pairs are not "
        "hidden again",
    .symptom = "keys that nobody sees get gradients",
    .cause = "the mask is not among what is kept for the backward pass",
    .fix = "hide the same pairs in both passes",
    .source = "textbook",
    .trigger = "a pair that a mask hides",
    .killed_by = kKilledBy,
    .when = "mask && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_mask_forgotten =
    backward_fault<MaskForgotten, QKVET_OPTION_MASK>(
        "faulty/backward_mask_forgotten", &kFault,
        {"impl/faulty/backward_mask_forgotten.cpp", __LINE__});

}  // namespace qkvet::impl
