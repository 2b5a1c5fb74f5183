// SPDX-License-Identifier: Apache-2.0
// faulty/split_without_transpose: a projection is reshaped into heads
// as it lies in memory.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct SplitWithoutTranspose : PlainLayer {
  // [T, heads width] taken for [heads, T, width].
  static int64_t split(const LayerCall&, int64_t heads, int64_t width,
                       int64_t t, int64_t column) {
    return t * heads * width + column;
  }
};

constexpr const char* kKilledBy[] = {"split_and_merge_place_every_element",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the memory of [B, T, H d] is read as [B, H, T, d], without a "
        "transpose",
    .symptom =
        "every shape fits; a head holds pieces of all heads of a few tokens",
    .cause =
        "x.view(B, H, T, d) stands where x.view(B, T, H, d).transpose(1, 2) "
        "belongs",
    .fix = "reshape to [B, T, H, d] first, then transpose heads and tokens",
    .source = "textbook",
    .trigger = "more than one head and more than one token",
    .killed_by = kKilledBy,
    .when = "H > 1 && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_split_without_transpose =
    faulty_layer<SplitWithoutTranspose>(
        "faulty/split_without_transpose", &kFault,
        {"impl/faulty/split_without_transpose.cpp", __LINE__});

}  // namespace qkvet::impl
