// SPDX-License-Identifier: Apache-2.0
// Faults of tokens that move within a cache: evictions and reorders.
#include <cstring>
#include <exception>
#include <numeric>
#include <vector>

#include "impl/faulty/cache_fault.h"
#include "impl/kv_cache/pages.h"
#include "impl/kv_cache/quantised.h"
#include "impl/kv_cache/turned.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

struct CacheEvictDropsTheLast : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  void remove(int64_t, int64_t, int64_t) override {}
};
QKVET_FAULT(cache_evict_drops_the_last, kCacheFault<CacheEvictDropsTheLast>) = {
    .when = "commands(verb == evict && first < held)",
    .cause =
        "an eviction lowers the length and leaves the tokens where they are",
    .fix = "move the later tokens into the places of the evicted ones",
    .killed_by = {"cache_evict_forgets", "cache_agrees_with_history"},
};

struct CacheEvictKeysOnly : ContiguousCache {
  using ContiguousCache::ContiguousCache;
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
QKVET_FAULT(cache_evict_keys_only, kCacheFault<CacheEvictKeysOnly>) = {
    .when = "commands(verb == evict && first < held)",
    .cause = "an eviction moves the later keys and not their values",
    .fix = "move both, or one row that holds both",
    .killed_by = {"cache_evict_forgets", "cache_agrees_with_history"},
};

struct CacheEvictCountsPositions : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    int64_t number = 0;
    while (number < held(sequence) - tokens &&
           gaps(sequence).position(number) < first) {
      ++number;
    }
    ContiguousCache::remove(sequence, number, tokens);
  }
};
QKVET_FAULT(cache_evict_counts_positions,
            kCacheFault<CacheEvictCountsPositions>) = {
    .when = "commands(verb == evict) > 1",
    .cause = "an eviction looks for its first token by position instead of "
             "number: the two are equal until the first eviction",
    .fix = "define which of the two a range is given in, and translate",
    .source = "ggml-org/llama.cpp#3840 (the other way round)",
    .killed_by = {"cache_evict_forgets", "cache_agrees_with_history"},
};

struct CacheEvictPositionFromCount : TurnedKeys<ContiguousCache> {
  using TurnedKeys::TurnedKeys;
  const Gaps& gaps(int64_t) const override { return none_; }
  Gaps none_;
};
QKVET_FAULT(
    cache_evict_position_from_count,
    kTableFault<&kTurnedTable<CacheEvictPositionFromCount, QKVET_CACHE_ROPE>,
                &kTurnedPrecision>) = {
    .when = "rope && commands(verb == evict && first < held)",
    .cause = "new tokens and queries get the number of held tokens as their "
             "position, which is lower after an eviction",
    .fix = "count positions and rows apart",
    .source = "rajveer43/VeloxQuant-MLX#389, rajveer43/VeloxQuant-MLX#171",
    .killed_by = {"cache_agrees_with_history"},
};

struct CacheEvictScalesStay : QuantisedCache {
  using QuantisedCache::QuantisedCache;
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    std::vector<float> scales;
    each_scale(sequence, [&](float& scale) { scales.push_back(scale); });
    QuantisedCache::remove(sequence, first, tokens);
    auto next = scales.begin();
    each_scale(sequence, [&](float& scale) { scale = *next++; });
  }
  template <class Use>
  void each_scale(int64_t sequence, Use use) const {
    if (shape().per_channel) return;
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t t = 0; t < held(sequence); ++t) {
        use(coded_keys().scale_of(slot(sequence, head, t)));
        use(coded_values().scale_of(slot(sequence, head, t)));
      }
    }
  }
};
QKVET_FAULT(cache_evict_scales_stay, kCodedFault<CacheEvictScalesStay>) = {
    .when = "stored == int8token && commands(verb == evict && first < held)",
    .cause = "an eviction moves codes and not the scales that belong to them",
    .fix = "move all that a token has",
    .source = "textbook (a scale a token), cf. ggml-org/llama.cpp#5652",
    .killed_by = {"cache_stores_what_it_is_given", "cache_evict_forgets"},
};

struct CacheEvictWritesSharedPage : PagedCache {
  using PagedCache::PagedCache;
  void own(int64_t, int64_t, int64_t) override {}
};
QKVET_FAULT(cache_evict_writes_shared_page,
            kCacheFault<CacheEvictWritesSharedPage>) = {
    .when = "commands(verb == fork || verb == reorder) && commands(verb == "
            "evict && first < held)",
    .cause = "an eviction moves tokens within pages that another sequence also "
             "holds: only an append copies on write",
    .fix = "copy every shared page that is written to",
    .source = "textbook (PagedAttention, copy on write)",
    .killed_by = {"cache_forks_are_independent"},
};

struct CacheReorderInPlace : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  // The second sequence may find the first one overwritten.
  void rearrange(const int64_t* parents) override {
    std::vector<int64_t> one(static_cast<size_t>(shape().sequences));
    for (size_t s = 0; s < one.size(); ++s) {
      std::iota(one.begin(), one.end(), 0);
      one[s] = parents[s];
      ContiguousCache::rearrange(one.data());
    }
  }
};
QKVET_FAULT(cache_reorder_in_place, kCacheFault<CacheReorderInPlace>) = {
    .when = "B > 1 && commands(verb == reorder)",
    .cause = "a reorder copies sequence by sequence and overwrites what others "
             "still have to copy",
    .fix = "gather all parents before the first write",
    .source = "textbook, cf. huggingface/transformers#46612",
    .killed_by = {"cache_reorder_moves_histories"},
};

struct CacheReorderKeysOnly : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  void rearrange(const int64_t* parents) override {
    const int64_t row = shape().width * bytes_of(shape().storage);
    const Regions keys(memory(0).keys.get(),
                       shape().kv_heads * shape().capacity * row, parents,
                       shape().sequences);
    keys.write();
  }
};
QKVET_FAULT(cache_reorder_keys_only, kCacheFault<CacheReorderKeysOnly>) = {
    .when = "commands(verb == fork || verb == reorder)",
    .cause = "a reorder moves keys and lengths, and leaves the values where "
             "they are",
    .fix = "reorder everything that a sequence owns",
    .source = "huggingface/transformers#46612, wenet-e2e/wenet#1625",
    .killed_by = {"cache_reorder_moves_histories", "cache_agrees_with_history"},
};

struct CacheReorderScatters {
  static qkvet_status reorder(const qkvet_kernel* self, qkvet_cache* cache,
                              const int64_t* parents, qkvet_text* why) {
    const CacheBook& c = *reinterpret_cast<CacheBook*>(cache);
    bool legal = parents != nullptr;
    for (int64_t s = 0; legal && s < c.shape().sequences; ++s)
      legal = c.has(parents[s]);
    if (!legal) return reorder_cache(self, cache, parents, why);
    try {
      // A sequence that nobody is sent to stays what it is.
      std::vector<int64_t> from(static_cast<size_t>(c.shape().sequences));
      std::iota(from.begin(), from.end(), 0);
      for (int64_t s = 0; s < c.shape().sequences; ++s)
        from[static_cast<size_t>(parents[s])] = s;
      return reorder_cache(self, cache, from.data(), why);
    } catch (const std::exception&) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the order");
    }
  }

  static constexpr qkvet_cache_table kTable = [] {
    qkvet_cache_table table = kCacheTable<ContiguousCache, QKVET_CACHE_ROPE>;
    table.reorder = reorder;
    return table;
  }();
};
QKVET_FAULT(cache_reorder_scatters,
            kTableFault<&CacheReorderScatters::kTable>) = {
    .when = "B > 1 && commands(verb == reorder)",
    .cause = "cache[parents[s]] = cache[s] instead of cache[s] = "
             "cache[parents[s]]: a scatter replaces a gather",
    .fix = "gather: index_select, not index_copy",
    .killed_by = {"cache_agrees_with_history", "cache_reorder_moves_histories"},
};

}  // namespace qkvet::impl
