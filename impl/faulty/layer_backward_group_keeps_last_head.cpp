// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_group_keeps_last_head: of a group of query heads the
// last one alone reaches W_K and W_V.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

// In place of what the heads in front of it have added.
qkvet_status last_head(const BackwardPiece& piece, qkvet_context* context,
                       qkvet_text* why) {
  const ForwardCall& call = *piece.call;
  if (piece.first == 0) {
    set_all(piece.d_k, call.keys * call.width, 0);
    set_all(piece.d_v, call.keys * call.value_width, 0);
  }
  return BackwardRows<PlainBackward>::piece(piece, context, why);
}

struct GroupKeepsLastHead : PlainLayerGradient {
  using Attention = BackwardKernel<PlainBackward, last_head>;
};

constexpr const char* kKilledBy[] = {
    "lone_token_gradients_are_exact", "layer_backward_is_the_adjoint",
    "layer_backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "every query head writes dk and dv of its key/value head, and none "
        "adds "
        "to them",
    .symptom =
        "the gradients of W_K and W_V are those of the last query head of a "
        "group",
    .cause =
        "code for one key/value head a query head, with an index that now "
        "repeats",
    .fix = "sum over the query heads of a group before the projections",
    .source = "textbook",
    .trigger = "grouped heads",
    .killed_by = kKilledBy,
    .when = "Hkv < H",
};

}  // namespace

extern constinit const qkvet_kernel
    faulty_layer_backward_group_keeps_last_head =
        layer_backward_fault<GroupKeepsLastHead>(
            "faulty/layer_backward_group_keeps_last_head", &kFault,
            {"impl/faulty/layer_backward_group_keeps_last_head.cpp", __LINE__});

}  // namespace qkvet::impl
