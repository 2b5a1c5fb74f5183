// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_growth_negative: a ring grows by what is missing to a
// counter.
#include <algorithm>

#include "impl/faulty/fault.h"
#include "impl/kv_cache/ring.h"

namespace qkvet::impl {
namespace {

class RingGrowthNegative : public RingCache {
 public:
  using RingCache::RingCache;

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    const int64_t growth = std::min(tokens, slots()) - held(sequence);
    return growth < 0 ? "no memory for a negative number of slots"
                      : RingCache::reserve(sequence, tokens);
  }
};

constexpr const char* kKilledBy[] = {"cache_chunks_equal_whole",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the buffer grows by slots - counter, and the counter goes on when the "
        "ring is full",
    .symptom =
        "right until a session is longer than its window; then it ends with an "
        "allocation error",
    .cause = "the counter of tokens stands for the size of the buffer",
    .fix = "grow by what is missing to the slots that are allocated",
    .source = "ml-explore/mlx-lm#950",
    .trigger = "a window, and a step behind a sequence longer than it",
    .killed_by = kKilledBy,
    .when = "cache.window > 0 && commands(before > cache.window)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_ring_growth_negative =
    faulty_cache<RingGrowthNegative, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_ring_growth_negative", &kFault,
        {"impl/faulty/cache_ring_growth_negative.cpp", __LINE__});

}  // namespace qkvet::impl
