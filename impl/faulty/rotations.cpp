// SPDX-License-Identifier: Apache-2.0
// Faults of rotary positions: pairs of channels, positions and tables.
#include "impl/faulty/kernels.h"

namespace qkvet::impl {

// Channels are paired as the other style of rotation pairs them.
struct OtherStyle : PlainTurn {
  static int32_t style(int32_t style) {
    return style == QKVET_ROPE_HALF ? QKVET_ROPE_INTERLEAVED : QKVET_ROPE_HALF;
  }
};

struct RopeStyleSwapped : OptionHooks {
  using QueryTurn = OtherStyle;
  using KeyTurn = OtherStyle;
};
QKVET_FAULT(rope_style_swapped) = {
    .kernel = option_fault<RopeStyleSwapped, QKVET_OPTION_ROPE>,
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
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
    .when =
        "rope && d > 2 && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

// Pairs are rotated by minus the angle.
struct BackTurn : PlainTurn {
  static float sine(float sin) { return -sin; }
};

struct RopeTurnsBack : OptionHooks {
  using QueryTurn = BackTurn;
  using KeyTurn = BackTurn;
};
QKVET_FAULT(rope_turns_back) = {
    .kernel = option_fault<RopeTurnsBack, QKVET_OPTION_ROPE>,
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
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

// The last pair of channels is not rotated.
struct OnePairLess : PlainTurn {
  static int64_t pairs(int64_t width) { return width / 2 - 1; }
};

struct RopeLastPairUnturned : OptionHooks {
  using QueryTurn = OnePairLess;
  using KeyTurn = OnePairLess;
};
QKVET_FAULT(rope_last_pair_unturned) = {
    .kernel = option_fault<RopeLastPairUnturned, QKVET_OPTION_ROPE>,
    .mechanism = "the last pair of channels is not rotated",
    .symptom = "small errors that grow with the distance of the keys",
    .cause =
        "a loop that ends at d/2 - 1, or a partial rotary dimension one short",
    .fix = "rotate all d/2 pairs",
    .source = "textbook",
    .trigger = "any rotation, and keys apart from the query",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

// Tables of half the width are read by channel.
struct ByChannel : PlainTurn {
  static int64_t column(int64_t n, int64_t pairs) { return 2 * n % pairs; }
};

struct RopeTableByChannel : OptionHooks {
  using QueryTurn = ByChannel;
  using KeyTurn = ByChannel;
};
QKVET_FAULT(rope_table_by_channel) = {
    .kernel = option_fault<RopeTableByChannel, QKVET_OPTION_ROPE>,
    .mechanism =
        "pair n is turned by column 2n of the tables, modulo their width",
    .symptom =
        "right for two channels; wider heads are turned by the wrong "
        "frequencies, every other one of which is never used",
    .cause =
        "tables that hold an angle a pair are indexed as if they held one a "
        "channel",
    .fix = "index them by the pair",
    .source = "microsoft/onnxruntime#26390",
    .trigger =
        "a rotation of more than two channels, and keys apart from the query",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
    .when =
        "rope && d > 2 && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

// Tokens are rotated by their row.
struct RopeIgnoresPositions : OptionHooks {
  using QueryTurn = TurnByRow;
  using KeyTurn = TurnByRow;
};
QKVET_FAULT(rope_ignores_positions) = {
    .kernel = option_fault<RopeIgnoresPositions, QKVET_OPTION_ROPE>,
    .mechanism =
        "queries and keys are rotated by their row, whatever their positions "
        "are",
    .symptom =
        "right for a prompt without padding; wrong as soon as rows and "
        "positions differ",
    .cause = "the tables are read from row 0 on",
    .fix = "rows q_positions and k_positions of the tables",
    .source = "textbook (position ids)",
    .trigger = "distances between positions that are not those between rows",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
    .when = "rope && (rope.random || rope.first > 0 || Tk > Tq)",
};

// Queries are rotated by their row and not by their position.
struct RopeQueryFromZero : OptionHooks {
  using QueryTurn = TurnByRow;
};
QKVET_FAULT(rope_query_from_zero) = {
    .kernel = option_fault<RopeQueryFromZero, QKVET_OPTION_ROPE>,
    .mechanism = "queries are rotated by their row and not by their position",
    .symptom = "a prompt is right, decoding sees every key too far away",
    .cause =
        "the offset of the cache is added to the keys and not to the queries",
    .fix = "row q_positions[b, i] of the tables",
    .source = "textbook, cf. the offset classes of KV caches",
    .trigger = "positions of queries that are not their rows",
    .killed_by = {"rope_turns_pairs_of_channels", "rope_sees_only_distances",
                  "agrees_with_oracle"},
    .when = "rope",
};

// All members have the positions of the first.
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
QKVET_FAULT(rope_positions_of_first_member) = {
    .kernel = option_fault<RopePositionsOfFirstMember, QKVET_OPTION_ROPE>,
    .mechanism = "the positions of member 0 are used for all members",
    .symptom = "right for one sequence, and for several that begin together",
    .cause =
        "positions are made once for a batch, or broadcast from its first row",
    .fix = "read the row of the member",
    .source = "unslothai/unsloth#3795, ndif-team/nnsight#673",
    .trigger = "B > 1, and positions that differ from member to member",
    .killed_by = {"rope_turns_pairs_of_channels", "agrees_with_oracle"},
    .when = "rope.random && B > 1",
};

// Positions are kept in 16 bits.
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
QKVET_FAULT(rope_positions_in_16_bits) = {
    .kernel = option_fault<RopePositionsIn16Bits, QKVET_OPTION_ROPE>,
    .mechanism = "positions are cut to 16 bits",
    .symptom =
        "right for the first 65,536 tokens; the one after them turns as the "
        "first one does",
    .cause = "positions are packed beside other numbers of a token",
    .fix = "keep positions in 32 bits or more",
    .source = "textbook (narrowing)",
    .trigger = "positions on both sides of 65,536",
    .killed_by = {"agrees_with_oracle"},
    .when = "rope && rope.first > 60000",
};

// dk is the gradient of the rotated keys.
struct BackwardKeysNotTurnedBack : PlainBackward {
  static void turn_key_back(const Rope&, int64_t, int64_t, float*) {}
};
QKVET_FAULT(backward_keys_not_turned_back) = {
    .kernel = backward_fault<BackwardKeysNotTurnedBack, QKVET_OPTION_ROPE>,
    .mechanism = "dk is the gradient of the rotated keys",
    .symptom = "dq and dv are right, dk is right at position 0 alone",
    .cause =
        "keys are rotated when they are loaded, and what is stored is the "
        "gradient of what was loaded",
    .fix = "turn dk back by the angle of its position, as dq",
    .source = "textbook",
    .trigger = "any rotation but that of position 0",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "rope && (rope.random || rope.first > 0 || Tk > 1)",
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
QKVET_FAULT(backward_turns_on) = {
    .kernel = backward_fault<BackwardTurnsOn, QKVET_OPTION_ROPE>,
    .mechanism = "dq and dk are rotated once more instead of back",
    .symptom = "dv is right; the loss falls more slowly than it should",
    .cause = "backward calls the rotation of forward",
    .fix = "rotate dq and dk by minus the angle",
    .source = "textbook",
    .trigger = "any rotation but that of position 0",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1 || Tk > 1)",
};

}  // namespace qkvet::impl
