// SPDX-License-Identifier: Apache-2.0
// Faults of what a cache adds to scores and hides of them.
#include <algorithm>
#include <cstdint>

#include "impl/faulty/cache_fault.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

// ALiBi of as many positions as the step has queries, broadcast over the keys.
class CacheAlibiOfTheQueries : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t apart(const CacheStep& step, int64_t query,
                int64_t j) const override {
    return std::min(ContiguousCache::apart(step, query, j), step.queries - 1);
  }
};
QKVET_FAULT(cache_alibi_of_the_queries) = {
    .kernel = cache_fault<CacheAlibiOfTheQueries, QKVET_CACHE_ALIBI>,
    .mechanism = "ALiBi is built for the number of queries, not of keys",
    .symptom =
        "a prompt in one step is right; a step of one query has no ALiBi at "
        "all, and the text drifts",
    .cause =
        "a bias [1, H, 1, Tq] of zeros broadcasts over the cache where "
        "Tq = 1",
    .fix = "build the bias for the tokens that the cache holds",
    .source = "keras-team/keras-hub#2861",
    .trigger = "ALiBi, and a step that attends to tokens of earlier steps",
    .killed_by = {"cache_agrees_with_history", "cache_decode_equals_prefill",
                  "cache_chunks_equal_whole"},
    .when = "alibi && commands(queries > 0 && held > queries)",
};

// Only a step on an empty sequence adds the sink.
class CacheSinkInPrefillOnly : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  bool has_sink(const CacheStep& step) const override {
    return held(step.sequence) == 0 && ContiguousCache::has_sink(step);
  }
};
QKVET_FAULT(cache_sink_in_prefill_only) = {
    .kernel = cache_fault<CacheSinkInPrefillOnly, QKVET_CACHE_SINK>,
    .mechanism = "the kernel of prefill adds the sink, that of decode does not",
    .symptom = "weights of later steps sum to one where they should be less",
    .cause = "the argument goes to one of the two kernels alone",
    .fix = "hand the sink to every step",
    .source = "textbook",
    .trigger = "a sink, and a step on a sequence that holds tokens",
    .killed_by = {"cache_agrees_with_history", "cache_decode_equals_prefill",
                  "cache_chunks_equal_whole"},
    .when = "sink && commands(queries > 0 && held > queries)",
};

// Column n of the mask hides new token n, and no column those of earlier steps.
class CacheMaskOfTheNewKeys : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t mask_column(const CacheStep& step, int64_t keys,
                      int64_t j) const override {
    return j - (keys - step.tokens);
  }
};
QKVET_FAULT(cache_mask_of_the_new_keys) = {
    .kernel = cache_fault<CacheMaskOfTheNewKeys, QKVET_CACHE_MASK>,
    .mechanism = "the mask of a step is indexed from the first key of the step",
    .symptom =
        "a prompt in one step is right; later steps see hidden tokens of "
        "earlier ones and hide others of their own",
    .cause =
        "the column is the number of the key in the step, and the mask has "
        "those of the whole sequence",
    .fix = "add the tokens that the sequence holds already to the column",
    .source = "textbook",
    .trigger = "a mask, and a step that attends to tokens of earlier steps",
    .killed_by = {"cache_agrees_with_history", "cache_decode_equals_prefill",
                  "cache_chunks_equal_whole"},
    .when = "mask && commands(queries > 0 && held > queries)",
};

class CacheBiasInPrefillOnly : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  bool has_bias(const CacheStep& step) const override {
    return step.queries > 1 && ContiguousCache::has_bias(step);
  }
};
QKVET_FAULT(cache_bias_in_prefill_only) = {
    .kernel = cache_fault<CacheBiasInPrefillOnly, QKVET_CACHE_BIAS>,
    .mechanism = "the kernel of one query does not add the bias",
    .symptom = "a prompt is right, each decoded token has scores without bias",
    .cause = "the argument goes to the kernel of prefill alone",
    .fix = "hand the bias to every step",
    .source = "textbook",
    .trigger = "a bias, and a step of one query",
    .killed_by = {"cache_agrees_with_history", "cache_decode_equals_prefill",
                  "cache_chunks_equal_whole"},
    .when = "bias && commands(queries == 1)",
};

}  // namespace qkvet::impl
