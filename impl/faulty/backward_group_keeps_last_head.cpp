// SPDX-License-Identifier: Apache-2.0
// faulty/backward_group_keeps_last_head: of a group of query heads the last
// one alone is kept.
#include "impl/faulty/backward_fault.h"

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

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "every query head writes dk and dv of its key/value head, and none "
        "adds to them",
    .symptom = "dk and dv are those of the last query head of a group",
    .cause =
        "code for one key/value head a query head, with an index that now "
        "repeats",
    .fix = "sum over the query heads of a group",
    .source = "textbook",
    .trigger = "grouped heads",
    .killed_by = kKilledBy,
    .when = "Hkv < H",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_group_keeps_last_head =
    backward_fault<PlainBackward, 0, last_head>(
        "faulty/backward_group_keeps_last_head", &kFault,
        {"impl/faulty/backward_group_keeps_last_head.cpp", __LINE__});

}  // namespace qkvet::impl
