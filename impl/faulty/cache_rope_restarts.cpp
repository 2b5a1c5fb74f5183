// SPDX-License-Identifier: Apache-2.0
// faulty/cache_rope_restarts: the tokens of a step are rotated from position 0.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class RestartingCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t position(const CacheStep& step, int64_t keys,
                   int64_t j) const override {
    const int64_t before = keys - step.tokens;
    return j < before ? j : j - before;
  }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history",
                                     "cache_chunks_equal_whole",
                                     "cache_decode_equals_prefill", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the tokens of a step are rotated from position 0",
    .symptom = "the first step is right, every later one is at the wrong place",
    .cause = "positions are counted in the step and not in the sequence",
    .fix = "position = tokens held before the step + number in the step",
    .source = "textbook, cf. rope-offset bugs of serving systems",
    .trigger = "a rotation, and a step behind another",
    .killed_by = kKilledBy,
    .when = "rope && commands(new > 0 && before > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_rope_restarts =
    faulty_cache<RestartingCache>(
        "faulty/cache_rope_restarts", &kFault,
        {"impl/faulty/cache_rope_restarts.cpp", __LINE__});

}  // namespace qkvet::impl
