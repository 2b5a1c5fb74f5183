// SPDX-License-Identifier: Apache-2.0
// faulty/cache_evict_counts_positions: an eviction takes the number of a token
// for its position.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class EvictCountsPositions : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    int64_t number = 0;
    while (number < held(sequence) - tokens &&
           gaps(sequence).position(number) < first) {
      ++number;
    }
    ContiguousCache::remove(sequence, number, tokens);
  }
};

constexpr const char* kKilledBy[] = {"cache_evict_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "an eviction looks for its first token by position and not by number",
    .symptom =
        "the first eviction of a sequence is right, every later one takes "
        "older tokens than it should",
    .cause = "tokens had the number of their position until the first eviction",
    .fix = "say which of the two a range is given in, and translate",
    .source = "ggml-org/llama.cpp#3840 (the other way round)",
    .trigger = "two evictions from one sequence",
    .killed_by = kKilledBy,
    .when = "commands(verb == evict) > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_evict_counts_positions =
    faulty_cache<EvictCountsPositions>(
        "faulty/cache_evict_counts_positions", &kFault,
        {"impl/faulty/cache_evict_counts_positions.cpp", __LINE__});

}  // namespace qkvet::impl
