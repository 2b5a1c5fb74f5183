// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_mask_forgotten: the gradient is that of a layer without
// its causal mask.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct SeesAll : PlainBackward {
  static bool sees(const ForwardCall&, int64_t, int64_t, int64_t, int64_t) {
    return true;
  }
};

struct MaskForgotten : PlainLayerGradient {
  using Attention = BackwardKernel<SeesAll, BackwardRows<SeesAll>::piece>;
};

constexpr const char* kKilledBy[] = {
    "layer_future_gradients_are_zero", "layer_backward_is_the_adjoint",
    "layer_backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the weights are computed again for the gradient, and the causal mask "
        "is not applied to them",
    .symptom =
        "the loss falls as it should not: tokens learn from what stands in "
        "front of them in time",
    .cause = "a flag of the forward pass that is not kept for the backward one",
    .fix = "mask the recomputed scores as the forward pass did",
    .source = "textbook",
    .trigger = "causal and more than one token",
    .killed_by = kKilledBy,
    .when = "causal && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_mask_forgotten =
    layer_backward_fault<MaskForgotten>(
        "faulty/layer_backward_mask_forgotten", &kFault,
        {"impl/faulty/layer_backward_mask_forgotten.cpp", __LINE__});

}  // namespace qkvet::impl
