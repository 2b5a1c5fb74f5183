// SPDX-License-Identifier: Apache-2.0
// faulty/rope_ignores_positions: tokens are rotated by their row.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct RopeIgnoresPositions : OptionSeams {
  using QueryTurn = TurnByRow;
  using KeyTurn = TurnByRow;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
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
    .killed_by = kKilledBy,
    .when = "rope && (rope.random || rope.first > 0 || Tk > Tq)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_ignores_positions =
    option_fault<RopeIgnoresPositions, QKVET_OPTION_ROPE>(
        "faulty/rope_ignores_positions", &kFault,
        {"impl/faulty/rope_ignores_positions.cpp", __LINE__});

}  // namespace qkvet::impl
