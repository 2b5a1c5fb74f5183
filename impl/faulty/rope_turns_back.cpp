// SPDX-License-Identifier: Apache-2.0
// faulty/rope_turns_back: pairs are rotated by minus the angle.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct BackTurn : PlainTurn {
  static float sine(float sin) { return -sin; }
};

struct TurnsBack : OptionSeams {
  using QueryTurn = BackTurn;
  using KeyTurn = BackTurn;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "pairs are rotated by minus the angle",
    .symptom =
        "outputs are right at equal positions, and for q and k that are even "
        "under a reflection",
    .cause =
        "the sign of the two sines exchanged, as in rotate_half without its "
        "minus",
    .fix = "a cos - b sin and a sin + b cos",
    .source = "textbook",
    .trigger = "any rotation, and keys apart from the query",
    .killed_by = kKilledBy,
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_turns_back =
    option_fault<TurnsBack, QKVET_OPTION_ROPE>(
        "faulty/rope_turns_back", &kFault,
        {"impl/faulty/rope_turns_back.cpp", __LINE__});

}  // namespace qkvet::impl
