// SPDX-License-Identifier: Apache-2.0
// faulty/mask_buffer_unsliced_stride: the rows of a mask buffer are taken T
// apart.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct MaskBufferUnslicedStride : PlainLayer {
  static void mask(const LayerCall& call, ForwardCall* heads) {
    heads->causal = false;
    heads->options.mask = {call.buffer.data,
                           {0, 0, call.tokens, call.buffer.step[1]}};
  }
};

constexpr const char* kKilledBy[] = {"layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the mask buffer is read with rows of T elements, though they have C",
    .symptom =
        "right for texts of the full context; shorter ones see the future, and "
        "miss the past",
    .cause =
        "the slice [:T, :T] is handed on as a pointer, and the stride of the "
        "buffer is lost",
    .fix = "pass the row stride of the buffer, or copy the slice",
    .source = "textbook",
    .trigger = "a mask buffer for more than T tokens, and T > 1",
    .killed_by = kKilledBy,
    .when = "context > Tq && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_buffer_unsliced_stride =
    faulty_layer<MaskBufferUnslicedStride>(
        "faulty/mask_buffer_unsliced_stride", &kFault,
        {"impl/faulty/mask_buffer_unsliced_stride.cpp", __LINE__});

}  // namespace qkvet::impl
