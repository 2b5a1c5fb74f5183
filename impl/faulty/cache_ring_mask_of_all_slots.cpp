// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_mask_of_all_slots: a query sees all that the ring holds.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class RingMaskOfAllSlots : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    Run& last = seen.runs[seen.count - 1];
    const int64_t fixed = seen.count == 1 ? 0 : seen.runs[0].end;
    last.begin = std::max(fixed, last.begin - shape().rollback);
    return seen;
  }
  int64_t most_seen(int64_t keys) const override {
    return std::min(keys, add_up_to_most(shape().reach(), shape().rollback));
  }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the mask has the size of the ring, which also keeps what may be taken "
        "back",
    .symptom =
        "right with a ring that is as large as the window; with spare slots a "
        "query sees older tokens",
    .cause =
        "the mask is made for the keys that are allocated, not for those that "
        "are visible",
    .fix = "mask by the window, whatever the size of the buffer",
    .source = "lablup/mlxcel#1776",
    .trigger = "a window with rollback, and a sequence longer than the window",
    .killed_by = kKilledBy,
    .when =
        "cache.window > 0 && cache.rollback > 0 && commands(queries > 0 && "
        "held > cache.window)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_ring_mask_of_all_slots =
    faulty_cache<RingMaskOfAllSlots, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_ring_mask_of_all_slots", &kFault,
        {"impl/faulty/cache_ring_mask_of_all_slots.cpp", __LINE__});

}  // namespace qkvet::impl
