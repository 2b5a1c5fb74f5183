// SPDX-License-Identifier: Apache-2.0
// faulty/offset_ignored: a chunk is masked as if it began the sequence.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct OffsetIgnored : PlainSeams {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.keys && (!call.causal || j <= i);
  }
};

constexpr const char* kKilledBy[] = {"chunks_equal_whole", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "counts the diagonal from the top left where the caller asks "
        "for the bottom right",
    .symptom =
        "a prompt in one piece is right; the second chunk on a warm cache sees "
        "too few keys",
    .cause = "the mask of the chunk leaves out the Tk - Tq keys before it",
    .fix = "hide every key with j > i + Tk - Tq",
    .source = "textbook",
    .trigger = "causal from the bottom right, and Tk > Tq",
    .killed_by = kKilledBy,
    .when = "bottom_right && Tq != Tk",
};

}  // namespace

extern constinit const qkvet_kernel faulty_offset_ignored =
    faulty_kernel<OffsetIgnored>("faulty/offset_ignored", &kFault,
                                 {"impl/faulty/offset_ignored.cpp", __LINE__});

}  // namespace qkvet::impl
