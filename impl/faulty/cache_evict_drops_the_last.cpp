// SPDX-License-Identifier: Apache-2.0
// faulty/cache_evict_drops_the_last: an eviction shortens a sequence and moves
// nothing.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class EvictDropsTheLast : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void remove(int64_t, int64_t, int64_t) override {}
};

constexpr const char* kKilledBy[] = {"cache_evict_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "an eviction lowers the length and leaves the tokens where they are",
    .symptom =
        "what should have left is still attended, and the newest tokens are "
        "gone",
    .cause = "only the number of tokens follows the eviction",
    .fix = "move what stands behind the evicted tokens into their places",
    .source = "textbook (a list of slots and how many there are)",
    .trigger = "an eviction in front of the last token",
    .killed_by = kKilledBy,
    .when = "commands(verb == evict && first < held)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_evict_drops_the_last =
    faulty_cache<EvictDropsTheLast>(
        "faulty/cache_evict_drops_the_last", &kFault,
        {"impl/faulty/cache_evict_drops_the_last.cpp", __LINE__});

}  // namespace qkvet::impl
