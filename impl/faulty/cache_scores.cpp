// SPDX-License-Identifier: Apache-2.0
// Faults of what a cache adds to scores and hides of them.
#include <algorithm>
#include <cstdint>

#include "impl/faulty/cache_fault.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

struct CacheAlibiOfTheQueries : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t apart(const CacheStep& step, int64_t query,
                int64_t j) const override {
    return std::min(ContiguousCache::apart(step, query, j), step.queries - 1);
  }
};
QKVET_FAULT(cache_alibi_of_the_queries,
            kCacheFault<CacheAlibiOfTheQueries, QKVET_CACHE_ALIBI>) = {
    .when = "alibi && commands(queries > 0 && held > queries)",
    .cause = "ALiBi is built for the number of queries instead of keys: for "
             "one query, zeros are broadcast over the cache",
    .fix = "build the bias for the tokens that the cache holds",
    .source = "keras-team/keras-hub#2861",
    .killed_by = {"cache_decode_equals_prefill", "cache_chunks_equal_whole"},
};

struct CacheSinkInPrefillOnly : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  bool has_sink(const CacheStep& step) const override {
    return held(step.sequence) == 0 && ContiguousCache::has_sink(step);
  }
};
QKVET_FAULT(cache_sink_in_prefill_only,
            kCacheFault<CacheSinkInPrefillOnly, QKVET_CACHE_SINK>) = {
    .when = "sink && commands(queries > 0 && held > queries)",
    .cause = "the kernel of prefill adds the sink, that of decode does not",
    .fix = "pass the sink to every step",
    .killed_by = {"cache_decode_equals_prefill", "cache_chunks_equal_whole"},
};

struct CacheMaskOfTheNewKeys : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t mask_column(const CacheStep& step, int64_t keys,
                      int64_t j) const override {
    return j - (keys - step.tokens);
  }
};
QKVET_FAULT(cache_mask_of_the_new_keys,
            kCacheFault<CacheMaskOfTheNewKeys, QKVET_CACHE_MASK>) = {
    .when = "mask && commands(queries > 0 && held > queries)",
    .cause = "the mask of a step is indexed from the first key of the step "
             "instead of the sequence",
    .fix = "add the tokens that the sequence holds already to the column",
    .killed_by = {"cache_decode_equals_prefill", "cache_chunks_equal_whole"},
};

struct CacheBiasInPrefillOnly : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  bool has_bias(const CacheStep& step) const override {
    return step.queries > 1 && ContiguousCache::has_bias(step);
  }
};
QKVET_FAULT(cache_bias_in_prefill_only,
            kCacheFault<CacheBiasInPrefillOnly, QKVET_CACHE_BIAS>) = {
    .when = "bias && commands(queries == 1)",
    .cause = "the kernel of prefill adds the bias, that of one query does not",
    .fix = "pass the bias to every step",
    .killed_by = {"cache_decode_equals_prefill", "cache_chunks_equal_whole"},
};

}  // namespace qkvet::impl
