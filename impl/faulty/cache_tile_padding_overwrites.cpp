// SPDX-License-Identifier: Apache-2.0
// faulty/cache_tile_padding_overwrites: steps are written in whole tiles
// of 4 rows.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

class TilePaddingOverwrites : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  // The rows that fill the last tile are zero, and may be of the next sequence.
  void write(const CacheStep& step, int64_t before) override {
    const int64_t padding = -step.tokens & (tile() - 1);
    const int64_t all = all_slots(shape(), shape().capacity);
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      const int64_t end =
          first_slot(step.sequence, head, 0) + before + step.tokens;
      const int64_t n = std::min(padding, all - end);
      clear_slots(shape(), memory(step.sequence), end, n);
    }
    ContiguousCache::write(step, before);
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a step is written in tiles of 4 rows, and the padding goes where the "
        "next head or sequence lies",
    .symptom =
        "right until a sequence is nearly full; then others lose their first "
        "tokens",
    .cause = "the copy rounds its rows up to a tile, the layout does not",
    .fix = "write the last tile in part, or round the capacity up as well",
    .source = "tenstorrent/tt-metal#52671",
    .trigger = "a step that ends less than a tile in front of the capacity",
    .killed_by = kKilledBy,
    .when =
        "(B > 1 || Hkv > 1) && commands(new % 4 != 0 && held + 4 - new % 4 > "
        "capacity)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_tile_padding_overwrites =
    faulty_cache<TilePaddingOverwrites>(
        "faulty/cache_tile_padding_overwrites", &kFault,
        {"impl/faulty/cache_tile_padding_overwrites.cpp", __LINE__});

}  // namespace qkvet::impl
