// SPDX-License-Identifier: Apache-2.0
// Faults of rotary positions: pairs of channels, positions and tables.
#include "impl/faulty/kernels.h"

namespace qkvet::impl {

struct OtherStyle : PlainTurn {
  static int32_t style(int32_t style) {
    return style == QKVET_ROPE_HALF ? QKVET_ROPE_INTERLEAVED : QKVET_ROPE_HALF;
  }
};

struct RopeStyleSwapped : OptionHooks {
  using QueryTurn = OtherStyle;
  using KeyTurn = OtherStyle;
};
QKVET_FAULT(rope_style_swapped,
            kOptionFault<RopeStyleSwapped, QKVET_OPTION_ROPE>) = {
    .when =
        "rope && d > 2 && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause = "channels are paired as the other style of rotation pairs them: "
             "the checkpoint is permuted for that style",
    .fix = "pair (c, c + d/2) for half, (2c, 2c + 1) for interleaved",
    .source = "textbook; both styles are in use",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct BackTurn : PlainTurn {
  static float sine(float sin) { return -sin; }
};

struct RopeTurnsBack : OptionHooks {
  using QueryTurn = BackTurn;
  using KeyTurn = BackTurn;
};
QKVET_FAULT(rope_turns_back, kOptionFault<RopeTurnsBack, QKVET_OPTION_ROPE>) = {
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause = "pairs are rotated by minus the angle: the signs of the two sines "
             "are exchanged",
    .fix = "a cos - b sin and a sin + b cos",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct OnePairLess : PlainTurn {
  static int64_t pairs(int64_t width) { return width / 2 - 1; }
};

struct RopeLastPairUnturned : OptionHooks {
  using QueryTurn = OnePairLess;
  using KeyTurn = OnePairLess;
};
QKVET_FAULT(rope_last_pair_unturned,
            kOptionFault<RopeLastPairUnturned, QKVET_OPTION_ROPE>) = {
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause =
        "the last pair of channels is not rotated: the loop ends at d/2 - 1",
    .fix = "rotate all d/2 pairs",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct ByChannel : PlainTurn {
  static int64_t column(int64_t n, int64_t pairs) { return 2 * n % pairs; }
};

struct RopeTableByChannel : OptionHooks {
  using QueryTurn = ByChannel;
  using KeyTurn = ByChannel;
};
QKVET_FAULT(rope_table_by_channel,
            kOptionFault<RopeTableByChannel, QKVET_OPTION_ROPE>) = {
    .when =
        "rope && d > 2 && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause = "pair n is rotated by column 2n of the tables, modulo their "
             "width: one angle a channel is assumed",
    .fix = "index them by the pair",
    .source = "microsoft/onnxruntime#26390",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct RopeIgnoresPositions : OptionHooks {
  using QueryTurn = TurnByRow;
  using KeyTurn = TurnByRow;
};
QKVET_FAULT(rope_ignores_positions,
            kOptionFault<RopeIgnoresPositions, QKVET_OPTION_ROPE>) = {
    .when = "rope && (rope.random || rope.first > 0 || Tk > Tq)",
    .cause = "queries and keys are rotated by their row instead of their "
             "position: the tables are read from row 0",
    .fix = "rows q_positions and k_positions of the tables",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct RopeQueryFromZero : OptionHooks {
  using QueryTurn = TurnByRow;
};
QKVET_FAULT(rope_query_from_zero,
            kOptionFault<RopeQueryFromZero, QKVET_OPTION_ROPE>) = {
    .when = "rope",
    .cause = "queries are rotated by their row instead of their position: only "
             "the keys get the offset of the cache",
    .fix = "row q_positions[b, i] of the tables",
    .source = "textbook, cf. the offset classes of KV caches",
    .killed_by = {"rope_turns_pairs_of_channels", "rope_sees_only_distances"},
};

struct OfFirstMember : PlainTurn {
  static int64_t position(const View<const int64_t>& positions, int64_t,
                          int64_t t) {
    return PlainTurn::position(positions, 0, t);
  }
};

struct RopePositionsOfFirstMember : OptionHooks {
  using QueryTurn = OfFirstMember;
  using KeyTurn = OfFirstMember;
};
QKVET_FAULT(rope_positions_of_first_member,
            kOptionFault<RopePositionsOfFirstMember, QKVET_OPTION_ROPE>) = {
    .when = "rope.random && B > 1",
    .cause = "the positions of batch element 0 are used for all: they are "
             "broadcast from its row",
    .fix = "read the row of the batch element",
    .source = "unslothai/unsloth#3795, ndif-team/nnsight#673",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct NarrowPosition : PlainTurn {
  static int64_t position(const View<const int64_t>& positions, int64_t b,
                          int64_t t) {
    return static_cast<uint16_t>(PlainTurn::position(positions, b, t));
  }
};

struct RopePositionsIn16Bits : OptionHooks {
  using QueryTurn = NarrowPosition;
  using KeyTurn = NarrowPosition;
};
QKVET_FAULT(rope_positions_in_16_bits,
            kOptionFault<RopePositionsIn16Bits, QKVET_OPTION_ROPE>) = {
    .when = "rope && rope.first > 60000",
    .cause = "positions are cut to 16 bits: they are packed next to other "
             "numbers of a token",
    .fix = "keep positions in 32 bits or more",
    .killed_by = {"agrees_with_oracle"},
};

struct AcrossTheRow : PlainTurn {
  static int64_t apart(const Rope&, int64_t width) { return width / 2; }
};

struct RopePartPairsAcrossTheRow : OptionHooks {
  using QueryTurn = AcrossTheRow;
  using KeyTurn = AcrossTheRow;
};
QKVET_FAULT(rope_part_pairs_across_the_row,
            kOptionFault<RopePartPairsAcrossTheRow, kRotations>) = {
    .when = "rope && rope.channels > 0 && "
            "(rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause = "channel c is paired with c + d/2 although only r of d channels "
             "are turned",
    .fix = "pair (c, c + r/2), r twice the columns of the tables",
    .source = "textbook, cf. rotary_dim and partial_rotary_factor",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

struct LastOfTheRow : PlainTurn {
  static int64_t first(const Rope& rope, int64_t width) {
    return width - rope.channels;
  }
};

struct RopePartTurnsTheLast : OptionHooks {
  using QueryTurn = LastOfTheRow;
  using KeyTurn = LastOfTheRow;
};
QKVET_FAULT(rope_part_turns_the_last,
            kOptionFault<RopePartTurnsTheLast, kRotations>) = {
    .when = "rope.channels > 0 && "
            "(rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause = "the last r of d channels are turned instead of the first: "
             "latent attention has them at the end",
    .fix = "turn channels 0 to r - 1",
    .source = "DeepSeek-V2, 2.1.3, has the other order",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
};

// dk is the gradient of the rotated keys.
struct BackwardKeysNotTurnedBack : PlainBackward {
  static void turn_key_back(const Rope&, int64_t, int64_t, float*) {}
};
QKVET_FAULT(backward_keys_not_turned_back,
            kBackwardFault<BackwardKeysNotTurnedBack, QKVET_OPTION_ROPE>) = {
    .when = "rope && (rope.random || rope.first > 0 || Tk > 1)",
    .cause = "dk is not turned back: it is the gradient of the keys as they "
             "were loaded, after their rotation",
    .fix = "turn dk back by the angle of its position, as dq",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

// Gradients are turned on instead of back.
struct BackwardTurnsOn : PlainBackward {
  static void turn_query_back(const Rope& rope, int64_t position, int64_t width,
                              float* row) {
    turn_row<PlainTurn>(rope, position, width, row);
  }
  static void turn_key_back(const Rope& rope, int64_t position, int64_t width,
                            float* row) {
    turn_row<PlainTurn>(rope, position, width, row);
  }
};
QKVET_FAULT(backward_turns_on,
            kBackwardFault<BackwardTurnsOn, QKVET_OPTION_ROPE>) = {
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
    .cause = "dq and dk are rotated once more instead of back: backward calls "
             "the rotation of forward",
    .fix = "rotate dq and dk by minus the angle",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

}  // namespace qkvet::impl
