// SPDX-License-Identifier: Apache-2.0
// faulty/shared_tile_read_early: a tile is read before all of it is there.
#include "impl/faulty/flash_fault.h"

namespace qkvet::impl {
namespace {

struct SharedTileReadEarly : FlashSeams {
  __device__ static void tile_is_there(DeviceRun, int) {}
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "threads read a tile of shared memory when their own loads are done, "
        "whatever those of others",
    .symptom = "NaN or values of the tile before, in the warps that run first",
    .cause = "the barrier behind the loads of a tile is missing",
    .fix = "a barrier of the block between the loads and the first read",
    .source = "textbook, cf. pengcuo/FlashMLA-ETAP#3",
    .trigger = "any row that sees a key",
    .killed_by = kKilledBy,
    .when = "rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_shared_tile_read_early =
    flash_fault<SharedTileReadEarly>(
        "faulty/shared_tile_read_early", &kFault,
        {"impl/faulty/shared_tile_read_early.cpp", __LINE__});

}  // namespace qkvet::impl
