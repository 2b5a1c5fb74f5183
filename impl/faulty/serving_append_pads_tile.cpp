// SPDX-License-Identifier: Apache-2.0
// faulty/serving_append_pads_tile: new tokens are stored in tiles of 4,
// padded with zeros.
#include "impl/faulty/serving_seams.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct AppendPadsTile : ServingSeams {
  static void append(const ServingCall& s, int64_t b) {
    const int64_t held = s.held(b);
    const int64_t tiles = (s.new_tokens + tile() - 1) / tile();
    for (int64_t n = s.new_tokens; n < tiles * tile(); ++n) {
      if (has_slot(s, b, held + n)) {
        clear(s, s.slot(b, held + n));
      }
    }
    ServingSeams::append(s, b);
  }
};

constexpr const char* kKilledBy[] = {"append_writes_only_its_tokens", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a whole tile is stored, with zeros behind the new tokens",
    .symptom = "tokens of other sequences become zero",
    .cause = "stores are not masked, and the tail of a block table is followed",
    .fix = "mask the store of the last tile",
    .source = "tenstorrent/tt-metal#56324",
    .trigger = "new tokens that fill no tile of 4",
    .killed_by = kKilledBy,
    .when = "new_tokens % 4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_append_pads_tile =
    serving_fault<AppendPadsTile>(
        "faulty/serving_append_pads_tile", &kFault,
        {"impl/faulty/serving_append_pads_tile.cpp", __LINE__});

}  // namespace qkvet::impl
