// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_rope_by_slot: a token is rotated by the slot of the ring
// that it lies in.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/ring.h"

namespace qkvet::impl {
namespace {

class RingRopeBySlot : public RingCache {
 public:
  using RingCache::RingCache;

 protected:
  int64_t position(const CacheStep&, int64_t, int64_t j) const override {
    return offset(j);
  }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the position of a token is its place in the ring",
    .symptom =
        "right until the ring has gone around; then distances jump where it "
        "begins again",
    .cause = "after eviction the length of the buffer counts as the position",
    .fix = "count positions in the sequence, and never back",
    .source = "rajveer43/VeloxQuant-MLX#389, textbook",
    .trigger =
        "a rotation, a window, and a sequence that has gone around its ring",
    .killed_by = kKilledBy,
    .when =
        "rope && (cache.window > 0 && commands(held > cache.window) || "
        "commands(verb == evict && first < held))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_ring_rope_by_slot =
    faulty_cache<RingRopeBySlot, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_ring_rope_by_slot", &kFault,
        {"impl/faulty/cache_ring_rope_by_slot.cpp", __LINE__});

}  // namespace qkvet::impl
