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

// An eviction shortens a sequence and moves nothing.
class CacheEvictDropsTheLast : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void remove(int64_t, int64_t, int64_t) override {}
};
QKVET_FAULT(cache_evict_drops_the_last) = {
    .kernel = cache_fault<CacheEvictDropsTheLast>,
    .mechanism =
        "an eviction lowers the length and leaves the tokens where they are",
    .symptom =
        "what should have left is still attended, and the newest tokens are "
        "gone",
    .cause = "only the number of tokens follows the eviction",
    .fix = "move what stands behind the evicted tokens into their places",
    .source = "textbook (a list of slots and how many there are)",
    .trigger = "an eviction in front of the last token",
    .killed_by = {"cache_evict_forgets", "cache_agrees_with_history"},
    .when = "commands(verb == evict && first < held)",
};

// An eviction closes up the keys and leaves the values where they are.
class CacheEvictKeysOnly : public ContiguousCache {
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
QKVET_FAULT(cache_evict_keys_only) = {
    .kernel = cache_fault<CacheEvictKeysOnly>,
    .mechanism = "an eviction moves the keys behind it and not their values",
    .symptom = "queries find the right tokens and answer with what others said",
    .cause =
        "keys and values are two tensors, and the eviction is written for one",
    .fix = "move both, or one row that holds both",
    .source = "textbook (two tensors a layer)",
    .trigger = "an eviction in front of the last token",
    .killed_by = {"cache_evict_forgets", "cache_agrees_with_history"},
    .when = "commands(verb == evict && first < held)",
};

// An eviction takes the number of a token for its position.
class CacheEvictCountsPositions : public ContiguousCache {
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
QKVET_FAULT(cache_evict_counts_positions) = {
    .kernel = cache_fault<CacheEvictCountsPositions>,
    .mechanism =
        "an eviction looks for its first token by position and not by number",
    .symptom =
        "the first eviction of a sequence is right, every later one takes "
        "older tokens than it should",
    .cause = "tokens had the number of their position until the first eviction",
    .fix = "say which of the two a range is given in, and translate",
    .source = "ggml-org/llama.cpp#3840 (the other way round)",
    .trigger = "two evictions from one sequence",
    .killed_by = {"cache_evict_forgets", "cache_agrees_with_history"},
    .when = "commands(verb == evict) > 1",
};

// After an eviction tokens are turned by how many are held.
class CacheEvictPositionFromCount : public TurnedKeys<ContiguousCache> {
 public:
  using TurnedKeys::TurnedKeys;

 protected:
  const Gaps& gaps(int64_t) const override { return none_; }

 private:
  Gaps none_;
};
QKVET_FAULT(cache_evict_position_from_count) = {
    .kernel = table_fault<
        &kTurnedTable<CacheEvictPositionFromCount, QKVET_CACHE_ROPE>,
        &kTurnedPrecision>,
    .mechanism =
        "new tokens and queries stand at the number of tokens that are held",
    .symptom =
        "right until something is evicted; from then on every new token is "
        "nearer to the old ones than it was, and more so with each eviction",
    .cause =
        "keys are stored rotated, and the offset of the next rotation is the "
        "number of rows",
    .fix = "count positions and rows apart",
    .source = "rajveer43/VeloxQuant-MLX#389, rajveer43/VeloxQuant-MLX#171",
    .trigger = "a rotation, an eviction, and a step behind it",
    .killed_by = {"cache_agrees_with_history"},
    .when = "rope && commands(verb == evict && first < held)",
};

// An eviction moves the codes and leaves their scales.
class CacheEvictScalesStay : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new CacheEvictScalesStay(shape);
  }

 protected:
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    std::vector<float> scales;
    each_scale(sequence, [&](float& scale) { scales.push_back(scale); });
    QuantisedCache::remove(sequence, first, tokens);
    auto next = scales.begin();
    each_scale(sequence, [&](float& scale) { scale = *next++; });
  }

 private:
  template <class Use>
  void each_scale(int64_t sequence, Use use) const {
    if (shape().per_channel) {
      return;
    }
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t t = 0; t < held(sequence); ++t) {
        use(coded_keys().scale_of(slot(sequence, head, t)));
        use(coded_values().scale_of(slot(sequence, head, t)));
      }
    }
  }
};
QKVET_FAULT(cache_evict_scales_stay) = {
    .kernel = cache_fault<CacheEvictScalesStay, QKVET_CACHE_INT8_PER_TOKEN>,
    .mechanism =
        "an eviction moves codes and not the scales that belong to them",
    .symptom =
        "exact without quantisation; with it, tokens behind an eviction have "
        "the direction of their own and the length of others",
    .cause = "scales are another tensor than the codes",
    .fix = "move all that a token has",
    .source = "textbook (a scale a token), cf. ggml-org/llama.cpp#5652",
    .trigger = "scales a token, an eviction, tokens of different magnitude",
    .killed_by = {"cache_stores_what_it_is_given", "cache_evict_forgets"},
    .when = "stored == int8token && commands(verb == evict && first < held)",
};

// An eviction closes up within pages that a fork still holds.
class CacheEvictWritesSharedPage : public PagedCache {
 public:
  using PagedCache::PagedCache;

 protected:
  void own(int64_t, int64_t, int64_t) override {}
};
QKVET_FAULT(cache_evict_writes_shared_page) = {
    .kernel = cache_fault<CacheEvictWritesSharedPage>,
    .mechanism =
        "an eviction moves tokens within pages that another sequence holds, "
        "too",
    .symptom =
        "the branch that evicts is right; its fork has lost tokens in its "
        "middle and holds others twice",
    .cause = "copying on write is in the way of appending alone",
    .fix = "copy every shared page that is written to",
    .source = "textbook (PagedAttention, copy on write)",
    .trigger =
        "a fork, an eviction from one branch, and a question to the other",
    .killed_by = {"cache_forks_are_independent"},
    .when =
        "commands(verb == fork || verb == reorder) && commands(verb == evict "
        "&& first < held)",
};

// Sequences are moved one after the other.
class CacheReorderInPlace : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
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
QKVET_FAULT(cache_reorder_in_place) = {
    .kernel = cache_fault<CacheReorderInPlace>,
    .mechanism =
        "a reorder copies sequence by sequence, over what others still have to "
        "copy",
    .symptom =
        "right while beams keep their order or only look ahead; two beams that "
        "change places become one",
    .cause = "cache[s] = cache[parents[s]] in a loop",
    .fix = "gather all parents before the first write",
    .source = "textbook, cf. huggingface/transformers#46612",
    .trigger = "a parent with a smaller number that was overwritten before",
    .killed_by = {"cache_reorder_moves_histories"},
    .when = "B > 1 && commands(verb == reorder)",
};

// Beams exchange their keys and keep their values.
class CacheReorderKeysOnly : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void rearrange(const int64_t* parents) override {
    const int64_t row = shape().width * bytes_of(shape().storage);
    const Regions keys(memory(0).keys.get(),
                       shape().kv_heads * shape().capacity * row, parents,
                       shape().sequences);
    keys.write();
  }
};
QKVET_FAULT(cache_reorder_keys_only) = {
    .kernel = cache_fault<CacheReorderKeysOnly>,
    .mechanism =
        "a reorder moves keys and lengths, and leaves the values where they "
        "are",
    .symptom =
        "greedy decoding is right; beams attend by their own keys to the "
        "values of others",
    .cause =
        "tensors to reorder are found by a name, and values have another one",
    .fix = "reorder everything that a sequence owns",
    .source = "huggingface/transformers#46612, wenet-e2e/wenet#1625",
    .trigger = "a fork, or a reorder that moves a sequence",
    .killed_by = {"cache_reorder_moves_histories", "cache_agrees_with_history"},
    .when = "commands(verb == fork || verb == reorder)",
};

// A reorder sends sequences to their parents.
struct CacheReorderScatters {
  static qkvet_status reorder(const qkvet_kernel* self, qkvet_cache* cache,
                              const int64_t* parents, qkvet_text* why) {
    const Cache& c = *reinterpret_cast<Cache*>(cache);
    bool legal = parents != nullptr;
    for (int64_t s = 0; legal && s < c.shape().sequences; ++s) {
      legal = c.has(parents[s]);
    }
    if (!legal) {
      return reorder_cache(self, cache, parents, why);
    }
    try {
      // A sequence that nobody is sent to stays what it is.
      std::vector<int64_t> from(static_cast<size_t>(c.shape().sequences));
      std::iota(from.begin(), from.end(), 0);
      for (int64_t s = 0; s < c.shape().sequences; ++s) {
        from[static_cast<size_t>(parents[s])] = s;
      }
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
QKVET_FAULT(cache_reorder_scatters) = {
    .kernel = table_fault<&CacheReorderScatters::kTable>,
    .mechanism =
        "cache[parents[s]] = cache[s], where cache[s] = cache[parents[s]] is "
        "asked",
    .symptom =
        "right while beams exchange their places in pairs; a beam that dies "
        "out survives, and the one to follow is lost",
    .cause = "a scatter by an index stands where a gather by it belongs",
    .fix = "gather: index_select, not index_copy",
    .source = "textbook",
    .trigger = "a reorder that is not its own inverse",
    .killed_by = {"cache_agrees_with_history", "cache_reorder_moves_histories"},
    .when = "B > 1 && commands(verb == reorder)",
};

}  // namespace qkvet::impl
