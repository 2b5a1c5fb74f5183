// SPDX-License-Identifier: Apache-2.0
// faulty/fused_order_assumed: a fused matrix is cut as Q, K, V, whatever is
// declared.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct FusedOrderAssumed : PlainLayer {
  static void fuse(LayerCall* call) {
    take_part(*call, 0, &call->w_q);
    take_part(*call, call->w_q.columns, &call->w_k);
    take_part(*call, call->w_q.columns + call->w_k.columns, &call->w_v);
  }
};

constexpr const char* kKilledBy[] = {"fused_equals_separate",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the parts of w_qkv are taken as Q, K, V in this order",
    .symptom =
        "checkpoints of one family of models work; those of another give "
        "fluent nonsense",
    .cause = "the order of one model is written into the loader",
    .fix = "read the order that is declared with the matrix",
    .source = "textbook",
    .trigger = "fused projections in another order than Q, K, V",
    .killed_by = kKilledBy,
    .when = "fused != none && fused != qkv",
};

}  // namespace

extern constinit const qkvet_kernel faulty_fused_order_assumed =
    faulty_layer<FusedOrderAssumed>(
        "faulty/fused_order_assumed", &kFault,
        {"impl/faulty/fused_order_assumed.cpp", __LINE__});

}  // namespace qkvet::impl
