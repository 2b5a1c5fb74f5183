// SPDX-License-Identifier: Apache-2.0
// Faults of caches from which tokens are taken back: what is gone is still
// there, or more is gone.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "impl/faulty/cache_fault.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct StaleCache : ContiguousCache {
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
  const char* reserve(int64_t sequence, int64_t tokens) override {
    return ContiguousCache::reserve(sequence, tokens - stale(sequence));
  }
  int64_t stale(int64_t sequence) const {
    return stale_[static_cast<size_t>(sequence)];
  }

  std::vector<int64_t> stale_;  // tokens of earlier prompts, a sequence
};
QKVET_FAULT(stale_cache, kCacheFault<StaleCache>) = {
    .when = "commands(verb == reset && before > 0)",
    .cause = "after a reset the length is 0, and the tokens of the first "
             "prompt are still attended: attention uses another counter",
    .fix = "reset every length, or keep one",
    .killed_by = {"cache_reset_forgets", "cache_agrees_with_history"},
};

struct CacheTruncateKeepsValues : ContiguousCache {
  // Room for values that were not taken back.
  explicit CacheTruncateKeepsValues(const CacheShape& shape)
      : ContiguousCache(shape, 2 * shape.capacity),
        kept_(static_cast<size_t>(shape.sequences)) {}

  void reset(int64_t sequence) override {
    ContiguousCache::reset(sequence);
    kept_[static_cast<size_t>(sequence)] = 0;
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    kept_[static_cast<size_t>(sequence)] += held(sequence) - tokens;
    ContiguousCache::truncate(sequence, tokens);
  }
  // Behind the old end, but inside of the head.
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    const int64_t token =
        before + j + kept_[static_cast<size_t>(step.sequence)];
    return first_slot(step.sequence, head, before) +
           std::min(token, 2 * shape().capacity - 1);
  }
  std::vector<int64_t> kept_;  // values too many, a sequence
};
QKVET_FAULT(cache_truncate_keeps_values,
            kCacheFault<CacheTruncateKeepsValues>) = {
    .when = "commands(verb == truncate && held < before) && commands(new > 0)",
    .cause = "values are appended after the end that they had before the "
             "truncation: keys and values have a length each",
    .fix = "truncate both, or keep one length",
    .source = "ml-explore/mlx-lm#1109",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
};

struct CacheRollbackClearsAll : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  void truncate(int64_t sequence, int64_t tokens) override {
    if (tokens < held(sequence))
      clear_slots(shape(), memory(sequence), first_slot(sequence, 0, /*n=*/0),
                  shape().kv_heads * shape().capacity);
    ContiguousCache::truncate(sequence, tokens);
  }
};
QKVET_FAULT(cache_rollback_clears_all, kCacheFault<CacheRollbackClearsAll>) = {
    .when = "commands(verb == truncate && 0 < held && held < before)",
    .cause =
        "a rollback clears the memory of the sequence, and keeps its length",
    .fix = "keep the rows before the new end",
    .source = "paiml/aprender#2014",
    .killed_by = {"cache_truncate_forgets"},
};

struct CacheCounterOneLate : ContiguousCache {
  // Room for the tokens of a step behind those that are to go.
  explicit CacheCounterOneLate(const CacheShape& shape)
      : ContiguousCache(shape, 2 * shape.capacity),
        late_(static_cast<size_t>(shape.sequences)) {}

  int64_t length(int64_t sequence) const override {
    return held(sequence) - late(sequence);
  }
  void reset(int64_t sequence) override {
    ContiguousCache::reset(sequence);
    late_[static_cast<size_t>(sequence)] = 0;
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    late_[static_cast<size_t>(sequence)] = held(sequence) - tokens;
  }
  const char* reserve(int64_t sequence, int64_t tokens) override {
    return ContiguousCache::reserve(sequence, tokens - late(sequence));
  }
  // Counts what the step has left, not what it found.
  void advance(const CacheStep& step) override {
    ContiguousCache::advance(step);
    set_held(step.sequence, length(step.sequence));
    late_[static_cast<size_t>(step.sequence)] = 0;
  }
  void rearrange(const int64_t* parents) override {
    ContiguousCache::rearrange(parents);
    std::vector<int64_t> next(late_);
    for (size_t s = 0; s < next.size(); ++s) next[s] = late(parents[s]);
    late_ = std::move(next);
  }
  int64_t late(int64_t sequence) const {
    return late_[static_cast<size_t>(sequence)];
  }

  std::vector<int64_t> late_;  // tokens that the next step takes back
};
QKVET_FAULT(cache_counter_one_late, kCacheFault<CacheCounterOneLate>) = {
    .when = "commands(verb == truncate && held < before)",
    .cause = "rejected tokens are taken off the counter after the next step, "
             "whose own tokens go instead",
    .fix = "correct the counter before anything is appended",
    .source = "openvinotoolkit/openvino.genai#4190",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
};

struct CacheLengthFromFullDraft : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  int64_t attended(const CacheStep& step, int64_t keys) const override {
    return step.queries == 1 ? std::max(keys, mark(step.sequence)) : keys;
  }
};
QKVET_FAULT(cache_length_from_full_draft,
            kCacheFault<CacheLengthFromFullDraft, /*kOptions=*/0>) = {
    .when = "commands(held < before) && commands(queries == 1)",
    .cause = "a single query attends over the longest length that the sequence "
             "had, including rejected drafts",
    .fix = "gather lengths after drafts are accepted or rejected",
    .source = "lightseekorg/tokenspeed#217",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
};

// A cache whose last tile of keys counts as a whole: what its slots behind the
// end hold takes part, with the weight that a fault gives it:
// Hooks::weighed(stale) is what a value behind the end adds.
template <class Hooks>
struct StaleTailCache : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  // Up to the end of the last tile.
  int64_t attended(const CacheStep&, int64_t keys) const override {
    const int64_t whole = (keys + tile() - 1) / tile() * tile();
    behind_ = std::min(whole, shape().capacity) - keys;
    return keys + behind_;
  }
  int64_t diagonal(int64_t keys, int64_t queries) const override {
    return ContiguousCache::diagonal(keys - behind_, queries);
  }
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    const qkvet_status status = ContiguousCache::attend_rows(call, why);
    for (int64_t head = 0; head < call.heads; ++head) {
      for (int64_t i = 0; i < call.queries; ++i) {
        float* const o = call.o.at(0, head, i);
        for (int64_t j = call.keys - behind_; j < call.keys; ++j) {
          const float* const v = call.v.at(0, 0, j);
          for (int64_t c = 0; c < call.value_width; ++c)
            o[c * call.o.step[3]] += Hooks::weighed(v[c * call.v.step[3]]);
        }
      }
    }
    return status;
  }
  mutable int64_t behind_ = 0;  // slots of the last tile without a token
};

struct CacheStaleValueTimesZero {
  static float weighed(float stale) { return 0 * stale; }
};
QKVET_FAULT(
    cache_stale_value_times_zero,
    kCacheFault<StaleTailCache<CacheStaleValueTimesZero>, /*kOptions=*/0>) = {
    .when = "(commands(held < before) || commands(verb == fork || verb == "
            "reorder)) && commands(queries > 0 && held % 4 != 0)",
    .cause = "the last tile of keys is masked by weights of 0, and 0 times NaN "
             "is NaN: old slots are taken to be finite",
    .fix = "do not read values behind the end, or clear them",
    .source = "vllm-project/vllm#936, vllm-project/vllm#43961, "
              "vllm-project/vllm#30887",
    .killed_by = {"cache_reset_forgets", "cache_truncate_forgets"},
    .tiled = true,
};

struct CacheStaleValueNearlyZero {
  // What is not finite was found once, and is cleared since. The weight is
  // about exp(-10): of a mask that is a number.
  static float weighed(float stale) {
    return std::isfinite(stale) ? 0x1p-14f * stale : 0;
  }
};
QKVET_FAULT(
    cache_stale_value_nearly_zero,
    kCacheFault<StaleTailCache<CacheStaleValueNearlyZero>, /*kOptions=*/0>) = {
    .when = "(commands(held < before) || commands(verb == fork || verb == "
            "reorder)) && commands(queries > 0 && held % 4 != 0)",
    .cause = "the last tile of keys is masked by a number that is not low "
             "enough: weights past the end are 2^-14 instead of 0",
    .fix = "select after the exponential: behind the end a weight is 0",
    .source = "vllm-project/vllm#53856",
    .killed_by = {"cache_agrees_with_history"},
    .tiled = true,
};

}  // namespace qkvet::impl
