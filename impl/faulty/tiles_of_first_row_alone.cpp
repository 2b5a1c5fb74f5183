// SPDX-License-Identifier: Apache-2.0
// faulty/tiles_of_first_row_alone: a block loads the tiles that its first row
// sees.
#include "impl/faulty/flash_fault.h"

namespace qkvet::impl {
namespace {

struct TilesOfFirstRowAlone : FlashSeams {
  __device__ static DeviceRun reach_of_block(const DeviceCall& call, int b,
                                             int first_row) {
    return call.reach_of_rows(b, first_row, 1);
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the causal skip ends where the first row of a block ends, "
        "and its other rows lose the keys behind",
    .symptom = "causal rows behind the first of a block miss keys at the end",
    .cause =
        "the end of a block of rows is computed for its first row instead of "
        "its last",
    .fix = "skip a tile only where the last row of the block sees none of it",
    .source = "textbook",
    .trigger = "causal, and a block of more than one row",
    .killed_by = kKilledBy,
    .when = "causal && Tq > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_tiles_of_first_row_alone =
    flash_fault<TilesOfFirstRowAlone>(
        "faulty/tiles_of_first_row_alone", &kFault,
        {"impl/faulty/tiles_of_first_row_alone.cpp", __LINE__});

}  // namespace qkvet::impl
