// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_not_turned_back: dq and dk are not turned back.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct NotTurnedBack : PlainLayerGradient {
  static bool turns_back() { return false; }
};

constexpr const char* kKilledBy[] = {"layer_backward_is_the_adjoint",
                                     "layer_backward_agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the gradients of rotated queries and keys are taken for those of what "
        "left the projections",
    .symptom = "W_Q and W_K learn in directions that change with the position",
    .cause =
        "a rotation that is applied in the forward pass and left out of the "
        "backward one",
    .fix =
        "turn dq and dk by the negative angle before they enter the "
        "projections",
    .source = "textbook",
    .trigger = "a rotation (RoPE) at positions above 0",
    .killed_by = kKilledBy,
    .when = "rope",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_not_turned_back =
    layer_backward_fault<NotTurnedBack>(
        "faulty/layer_backward_not_turned_back", &kFault,
        {"impl/faulty/layer_backward_not_turned_back.cpp", __LINE__});

}  // namespace qkvet::impl
