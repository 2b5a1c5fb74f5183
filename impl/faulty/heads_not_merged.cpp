// SPDX-License-Identifier: Apache-2.0
// faulty/heads_not_merged: attended goes into W_O head by head, as it lies
// in memory.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct HeadsNotMerged : PlainLayer {
  // [H, T, dv] taken for [T, H dv].
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return t * call.heads * call.value_width + column;
  }
};

constexpr const char* kKilledBy[] = {"split_and_merge_place_every_element",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the memory of [B, H, T, dv] is read as [B, T, H dv], without a "
        "transpose",
    .symptom =
        "every shape fits; tokens and heads are mixed up, and a causal layer "
        "sees the future",
    .cause = "a reshape stands where a transpose and a reshape belong",
    .fix = "transpose heads and tokens before the merge",
    .source = "textbook",
    .trigger = "more than one head and more than one token",
    .killed_by = kKilledBy,
    .when = "H > 1 && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_heads_not_merged =
    faulty_layer<HeadsNotMerged>(
        "faulty/heads_not_merged", &kFault,
        {"impl/faulty/heads_not_merged.cpp", __LINE__});

}  // namespace qkvet::impl
