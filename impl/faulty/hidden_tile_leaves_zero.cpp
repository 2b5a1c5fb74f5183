// SPDX-License-Identifier: Apache-2.0
// faulty/hidden_tile_leaves_zero: a hidden first tile leaves 0 for the running
// maximum.
#include "impl/faulty/tiled_seams.h"

namespace qkvet::impl {
namespace {

struct HiddenTileLeavesZero : TiledSeams {
  static float hidden_maximum() { return 0; }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the running maximum of a hidden tile is set to 0, to subtract "
        "nothing, and stays there",
    .symptom =
        "NaN or zeros in rows whose first keys are hidden and whose scores are "
        "far below 0",
    .cause = "what guards a difference of infinities is stored, not only used",
    .fix = "replace -infinity by 0 in the subtraction alone",
    .source = "Dao-AILab/flash-attention#2082",
    .trigger = "a hidden tile in front of keys with very negative scores",
    .killed_by = kKilledBy,
    .when = "(mask || window) && rows(seen > 0 && hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_hidden_tile_leaves_zero =
    tiled_fault<HiddenTileLeavesZero, QKVET_OPTION_MASK | QKVET_OPTION_WINDOW>(
        "faulty/hidden_tile_leaves_zero", &kFault,
        {"impl/faulty/hidden_tile_leaves_zero.cpp", __LINE__});

}  // namespace qkvet::impl
