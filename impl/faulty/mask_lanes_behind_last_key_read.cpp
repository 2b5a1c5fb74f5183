// SPDX-License-Identifier: Apache-2.0
// faulty/mask_lanes_behind_last_key_read: a row of the mask is read in whole
// tiles.
#include "impl/faulty/lane_reads.h"
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct MaskLanesBehindLastKeyRead : OptionSeams {
  // Those behind the very last row.
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const View<const uint8_t>& mask = whole.options.mask;
    if (mask.data == nullptr) {
      return;
    }
    const uint8_t* const row =
        mask.at(whole.batch - 1, whole.heads - 1, whole.queries - 1);
    for (int64_t j = whole.keys; j < whole_lanes(whole.keys, tile()); ++j) {
      read_and_drop(row + j * mask.step[3]);
    }
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the mask is read 4 keys at a time, beyond its last column in the last "
        "row",
    .symptom = "right, until a mask ends with its page: then the process dies",
    .cause =
        "the border of the last tile is looked at when scores are stored, "
        "after the mask was read",
    .fix = "compare with Tk before the mask is read",
    .source = "flashinfer-ai/flashinfer#1005",
    .trigger = "a mask, and Tk > 1 that is no multiple of 4",
    .killed_by = kKilledBy,
    .when = "mask && Tk > 1 && Tk % 4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_lanes_behind_last_key_read =
    option_fault<MaskLanesBehindLastKeyRead, QKVET_OPTION_MASK>(
        "faulty/mask_lanes_behind_last_key_read", &kFault,
        {"impl/faulty/mask_lanes_behind_last_key_read.cpp", __LINE__});

}  // namespace qkvet::impl
