// SPDX-License-Identifier: Apache-2.0
// faulty/backward_writes_whole_lanes: rows of a gradient are written in whole
// lanes.
#include "impl/faulty/backward_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct WritesWholeLanes : PlainBackward {
  static int64_t columns(int64_t width) {
    return (width + tile() - 1) / tile() * tile();
  }
};

constexpr const char* kKilledBy[] = {"backward_reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each row is written 4 channels at a time, be they there or not",
    .symptom =
        "the next row repairs it, and behind the last one memory of somebody "
        "else is overwritten",
    .cause =
        "a library is told the width of its lanes in place of that of the "
        "matrix",
    .fix = "mask the last store, or write the rest channel by channel",
    .source = "pytorch/pytorch#156022",
    .trigger = "d or dv that is no multiple of 4",
    .killed_by = kKilledBy,
    .when = "d % 4 != 0 || dv % 4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_writes_whole_lanes =
    backward_fault<WritesWholeLanes>(
        "faulty/backward_writes_whole_lanes", &kFault,
        {"impl/faulty/backward_writes_whole_lanes.cpp", __LINE__});

}  // namespace qkvet::impl
