// SPDX-License-Identifier: Apache-2.0
// faulty/fused_heads_interleaved: a fused matrix is read head by head.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct FusedHeadsInterleaved : PlainLayer {
  static const Projection& matrix(const LayerCall& call, Role role) {
    return call.fused != QKVET_FUSED_NONE ? call.w_qkv
                                          : PlainLayer::matrix(call, role);
  }
  // Every key head has a block: its query heads, its keys and its values, in
  // the declared order.
  static int64_t column(const LayerCall& call, Role role, int64_t column) {
    if (call.fused == QKVET_FUSED_NONE) {
      return column;
    }
    const int64_t group = call.heads / call.kv_heads;
    const int64_t widths[] = {group * call.width, call.width, call.value_width};
    const auto own = static_cast<size_t>(role);
    int64_t before = 0;
    for (const char* part = parts_in_order(call.fused); *part != "qkv"[own];
         ++part) {
      before += widths[*part == 'q' ? 0 : *part == 'k' ? 1 : 2];
    }
    const int64_t block = widths[0] + widths[1] + widths[2];
    return column / widths[own] * block + before + column % widths[own];
  }
};

constexpr const char* kKilledBy[] = {"fused_equals_separate",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "columns of w_qkv are taken as [head][q k v] and not as [q k v][head]",
    .symptom = "every shape fits, and heads are made of pieces of each other",
    .cause =
        "the matrix of a model that keeps the parts of a head together is "
        "taken for one that keeps the heads of a part together, or the other "
        "way round",
    .fix = "permute the columns when the checkpoint is converted",
    .source =
        "huggingface/transformers, GPTNeoXAttention: view(.., heads, 3 d), "
        "against c_attn of GPT-2",
    .trigger = "fused projections and more than one key head",
    .killed_by = kKilledBy,
    .when = "fused != none && Hkv > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_fused_heads_interleaved =
    faulty_layer<FusedHeadsInterleaved>(
        "faulty/fused_heads_interleaved", &kFault,
        {"impl/faulty/fused_heads_interleaved.cpp", __LINE__});

}  // namespace qkvet::impl
