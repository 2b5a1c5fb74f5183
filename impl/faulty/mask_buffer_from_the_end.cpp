// SPDX-License-Identifier: Apache-2.0
// faulty/mask_buffer_from_the_end: the last rows of a mask buffer are used.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct MaskBufferFromTheEnd : PlainLayer {
  static void mask(const LayerCall& call, ForwardCall* heads) {
    heads->causal = false;
    const int64_t first = call.context - call.tokens;
    heads->options.mask = {call.buffer.data + first * call.buffer.step[0],
                           {0, 0, call.buffer.step[0], call.buffer.step[1]}};
  }
};

constexpr const char* kKilledBy[] = {"layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a text of T tokens gets rows C - T .. C - 1 of the mask buffer",
    .symptom = "every token sees the whole text where the text is short",
    .cause =
        "the slice [-T:, :T], or that of a step of decoding with an empty "
        "cache",
    .fix = "take rows 0 .. T - 1 where the text begins",
    .source = "textbook",
    .trigger = "a mask buffer for more than T tokens, and T > 1",
    .killed_by = kKilledBy,
    .when = "context > Tq && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_buffer_from_the_end =
    faulty_layer<MaskBufferFromTheEnd>(
        "faulty/mask_buffer_from_the_end", &kFault,
        {"impl/faulty/mask_buffer_from_the_end.cpp", __LINE__});

}  // namespace qkvet::impl
