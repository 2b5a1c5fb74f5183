// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_heads_not_split: the gradient of the merged heads is
// not split.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct HeadsNotSplit : PlainLayerGradient {
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return t * call.heads * call.value_width + column;
  }
};

constexpr const char* kKilledBy[] = {
    "layer_future_gradients_are_zero", "layer_backward_is_the_adjoint",
    "layer_backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "rows of dY W_O^T are taken for heads as they lie, without the "
        "transpose of heads and tokens",
    .symptom =
        "the extents are right; gradients of tokens and heads are mixed, and "
        "the future reaches the past",
    .cause =
        "a reshape to [B, H, T, dv] where [B, T, H, dv] and a transpose belong",
    .fix = "undo the merge: column h dv + c of row t is channel c of head h",
    .source = "textbook",
    .trigger = "several heads and tokens",
    .killed_by = kKilledBy,
    .when = "H > 1 && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_heads_not_split =
    layer_backward_fault<HeadsNotSplit>(
        "faulty/layer_backward_heads_not_split", &kFault,
        {"impl/faulty/layer_backward_heads_not_split.cpp", __LINE__});

}  // namespace qkvet::impl
