// SPDX-License-Identifier: Apache-2.0
// faulty/backward_store_width_of_other_head: rows of dv are stored in pieces
// as wide as those of dk.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct StoreWidthOfOtherHead : PlainBackward {
  // The last piece is moved to the end of the row, and what it holds is not.
  static int64_t value_source(const ForwardCall& call, int64_t c) {
    const int64_t dv = call.value_width;
    const int64_t piece = call.width % 4 == 0 ? 4 : call.width % 2 == 0 ? 2 : 1;
    const int64_t rest = dv % piece, first = dv - piece;
    return dv > piece && first <= c && c < first + rest ? c + piece - rest : c;
  }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "dv is stored in pieces of 4 or 2 channels, the most that divide d; "
        "the last one is moved to end with the row, and holds what belongs "
        "behind its begin",
    .symptom =
        "a few of the last channels of dv are those of others; right where the "
        "pieces divide dv",
    .cause = "the width of a store is chosen once, from the heads of q and k",
    .fix = "choose it for each tensor by its own width",
    .source = "Dao-AILab/flash-attention#2552",
    .trigger = "an even d, and a dv that its pieces do not divide",
    .killed_by = kKilledBy,
    .when =
        "(d % 4 == 0 && dv > 4 && dv % 4 != 0) || (d % 4 == 2 && dv > 2 && dv "
        "% 2 != 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_store_width_of_other_head =
    backward_fault<StoreWidthOfOtherHead>(
        "faulty/backward_store_width_of_other_head", &kFault,
        {"impl/faulty/backward_store_width_of_other_head.cpp", __LINE__});

}  // namespace qkvet::impl
