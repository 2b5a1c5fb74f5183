// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_trim_moves_counter: a ring has no slots for tokens that
// may be taken back.
#include <algorithm>

#include "impl/faulty/fault.h"
#include "impl/kv_cache/ring.h"

namespace qkvet::impl {
namespace {

class RingTrimMovesCounter : public RingCache {
 public:
  explicit RingTrimMovesCounter(const CacheShape& shape)
      : RingCache(shape, slots_for(shape)) {}

 private:
  static int64_t slots_for(const CacheShape& shape) {
    return shape.window == 0 ? shape.capacity
                             : std::min(shape.capacity, shape.reach());
  }
};

constexpr const char* kKilledBy[] = {"cache_truncate_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a truncation lowers the counter; the tokens that rejected ones have "
        "overwritten are gone",
    .symptom =
        "rollback is right until the ring is full; then queries see rejected "
        "keys in the place of older ones",
    .cause =
        "the ring has as many slots as the window, and rollback is a matter of "
        "the counter only",
    .fix =
        "keep as many slots more as tokens can be taken back, or refuse to "
        "take them back",
    .source = "ml-explore/mlx-lm#1486, ollama/ollama#14912",
    .trigger = "a window that is full, and a truncation that drops tokens",
    .killed_by = kKilledBy,
    .when =
        "cache.window > 0 && cache.rollback > 0 && commands(held > "
        "cache.window)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_ring_trim_moves_counter =
    faulty_cache<RingTrimMovesCounter, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_ring_trim_moves_counter", &kFault,
        {"impl/faulty/cache_ring_trim_moves_counter.cpp", __LINE__});

}  // namespace qkvet::impl
