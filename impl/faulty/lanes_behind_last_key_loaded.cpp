// SPDX-License-Identifier: Apache-2.0
// faulty/lanes_behind_last_key_loaded: keys and values are loaded in whole
// tiles, be there keys or not.
#include "impl/faulty/lane_reads.h"
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct LanesBehindLastKeyLoaded : OptionSeams {
  // Those behind the last head of the last member; all others are in front of
  // something. A single key has no stride to follow.
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    if (whole.keys < 2) {
      return;
    }
    const int64_t b = whole.batch - 1, h = whole.kv_heads - 1;
    for (int64_t j = whole.keys; j < whole_lanes(whole.keys, tile()); ++j) {
      read_and_drop(whole.k.at(b, h, j));
      read_and_drop(whole.v.at(b, h, j));
    }
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the last tile of 4 keys is loaded whole, and what lies behind the "
        "last key is dropped",
    .symptom =
        "right, until a tensor ends with its page: then the process dies",
    .cause = "the scores of the lanes are masked, and their loads are not",
    .fix = "mask the loads as well, or load the rest of a tile key by key",
    .source = "pytorch/pytorch#169222",
    .trigger = "Tk > 1 that is no multiple of 4",
    .killed_by = kKilledBy,
    .when = "Tk > 1 && Tk % 4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_lanes_behind_last_key_loaded =
    option_fault<LanesBehindLastKeyLoaded>(
        "faulty/lanes_behind_last_key_loaded", &kFault,
        {"impl/faulty/lanes_behind_last_key_loaded.cpp", __LINE__});

}  // namespace qkvet::impl
