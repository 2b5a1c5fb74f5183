// SPDX-License-Identifier: Apache-2.0
// faulty/cache_evict_keys_only: an eviction closes up the keys and leaves the
// values where they are.
#include <cstring>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class EvictKeysOnly : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    const int64_t held = this->held(sequence);
    const int64_t row = shape().width * bytes_of(shape().storage);
    char* const keys = static_cast<char*>(memory(sequence).keys.get());
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      char* const to = keys + (first_slot(sequence, head, held) + first) * row;
      std::memmove(to, to + tokens * row,
                   static_cast<size_t>((held - first - tokens) * row));
    }
  }
};

constexpr const char* kKilledBy[] = {"cache_evict_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "an eviction moves the keys behind it and not their values",
    .symptom = "queries find the right tokens and answer with what others said",
    .cause =
        "keys and values are two tensors, and the eviction is written for one",
    .fix = "move both, or one row that holds both",
    .source = "textbook (two tensors a layer)",
    .trigger = "an eviction in front of the last token",
    .killed_by = kKilledBy,
    .when = "commands(verb == evict && first < held)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_evict_keys_only =
    faulty_cache<EvictKeysOnly>(
        "faulty/cache_evict_keys_only", &kFault,
        {"impl/faulty/cache_evict_keys_only.cpp", __LINE__});

}  // namespace qkvet::impl
