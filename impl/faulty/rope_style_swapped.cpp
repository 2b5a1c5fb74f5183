// SPDX-License-Identifier: Apache-2.0
// faulty/rope_style_swapped: channels are paired as the other style of rotation
// pairs them.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct OtherStyle : PlainTurn {
  static int32_t style(int32_t style) {
    return style == QKVET_ROPE_HALF ? QKVET_ROPE_INTERLEAVED : QKVET_ROPE_HALF;
  }
};

struct StyleSwapped : OptionSeams {
  using QueryTurn = OtherStyle;
  using KeyTurn = OtherStyle;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "channels are paired as the other style of rotation pairs them",
    .symptom =
        "outputs are right at equal positions and drift with the distance",
    .cause =
        "a checkpoint permuted for one style is read by a kernel of the other",
    .fix = "pair (c, c + d/2) for half, (2c, 2c + 1) for interleaved",
    .source = "textbook; both styles are in use",
    .trigger =
        "a rotation of more than two channels, and keys apart from the query",
    .killed_by = kKilledBy,
    .when =
        "rope && d > 2 && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_style_swapped =
    option_fault<StyleSwapped, QKVET_OPTION_ROPE>(
        "faulty/rope_style_swapped", &kFault,
        {"impl/faulty/rope_style_swapped.cpp", __LINE__});

}  // namespace qkvet::impl
