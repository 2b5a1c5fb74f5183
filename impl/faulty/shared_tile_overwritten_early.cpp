// SPDX-License-Identifier: Apache-2.0
// faulty/shared_tile_overwritten_early: the next tile is loaded over one that
// is read.
#include "impl/faulty/flash_fault.h"

namespace qkvet::impl {
namespace {

struct SharedTileOverwrittenEarly : FlashSeams {
  __device__ static void tile_is_read() {}
};

constexpr const char* kKilledBy[] = {"every_key_counts_once",
                                     "query_heads_read_their_kv_head", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "threads load the next tile into shared memory while others still read "
        "the one before",
    .symptom =
        "rows with more keys than a tile are wrong, most of all those of other "
        "warps; seldom twice the same on a GPU",
    .cause = "a block waits until a tile is there, and not until it was read",
    .fix =
        "a barrier in front of the loads of a tile as well as behind them, or "
        "two buffers in turn",
    .source = "pengcuo/FlashMLA-ETAP#3",
    .trigger = "rows of a block that see more keys than a tile has",
    .killed_by = kKilledBy,
    .when = "rows(seen > 32)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_shared_tile_overwritten_early =
    flash_fault<SharedTileOverwrittenEarly>(
        "faulty/shared_tile_overwritten_early", &kFault,
        {"impl/faulty/shared_tile_overwritten_early.cpp", __LINE__});

}  // namespace qkvet::impl
