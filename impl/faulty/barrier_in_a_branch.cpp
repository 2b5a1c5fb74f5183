// SPDX-License-Identifier: Apache-2.0
// faulty/barrier_in_a_branch: only warps that see a tile come to its barrier.
#include "impl/faulty/flash_fault.h"

namespace qkvet::impl {
namespace {

struct BarrierInABranch : FlashSeams {
  __device__ static void tile_is_there(DeviceRun of_warp, int first) {
    if (first < of_warp.end && of_warp.begin < first + kFlashKeys) {
      __syncthreads();
    }
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one",
                                     "every_key_counts_once", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a barrier of the block stands in a branch that only warps with a "
        "visible key of the tile take",
    .symptom =
        "a hang on some GPUs; on others barriers pair up wrongly and tiles are "
        "read too early",
    .cause = "the causal skip of a warp encloses the barrier",
    .fix = "all warps come to every barrier; skip only the arithmetic",
    .source = "ggml-org/llama.cpp#13469",
    .trigger = "two tiles or more, of which some warps of a block see one less",
    .killed_by = kKilledBy,
    .when = "rows(seen > 32)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_barrier_in_a_branch =
    flash_fault<BarrierInABranch>(
        "faulty/barrier_in_a_branch", &kFault,
        {"impl/faulty/barrier_in_a_branch.cpp", __LINE__});

}  // namespace qkvet::impl
