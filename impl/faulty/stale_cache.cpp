// SPDX-License-Identifier: Apache-2.0
// faulty/stale_cache: reset only resets the length that is reported.
#include <algorithm>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class StaleCache : public ContiguousCache {
 public:
  // Room for stale tokens as well: what is full must not give the fault away.
  explicit StaleCache(const CacheShape& shape)
      : ContiguousCache(shape, 2 * shape.capacity),
        stale_(static_cast<size_t>(shape.sequences)) {}

  int64_t length(int64_t sequence) const override {
    return held(sequence) - stale(sequence);
  }
  void reset(int64_t sequence) override {
    const int64_t kept = std::min(held(sequence), shape().capacity);
    set_held(sequence, kept);
    stale_[static_cast<size_t>(sequence)] = kept;
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    set_held(sequence, stale(sequence) + tokens);
  }

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    return ContiguousCache::reserve(sequence, tokens - stale(sequence));
  }

 private:
  int64_t stale(int64_t sequence) const {
    return stale_[static_cast<size_t>(sequence)];
  }

  std::vector<int64_t> stale_;  // tokens of earlier prompts, a sequence
};

constexpr const char* kKilledBy[] = {"cache_reset_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "after a reset the length is 0, and the tokens of the first prompt are "
        "still attended",
    .symptom = "the second conversation of a process knows the first one",
    .cause = "the counter that is reported is not the one that attention uses",
    .fix = "reset every length, or keep one",
    .source = "textbook",
    .trigger = "a reset of a sequence that holds tokens, and a step after it",
    .killed_by = kKilledBy,
    .when = "commands(verb == reset && before > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_stale_cache =
    faulty_cache<StaleCache>("faulty/stale_cache", &kFault,
                             {"impl/faulty/stale_cache.cpp", __LINE__});

}  // namespace qkvet::impl
