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

// Reset only resets the length that is reported.
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
QKVET_FAULT(stale_cache) = {
    .kernel = cache_fault<StaleCache>,
    .mechanism =
        "after a reset the length is 0, and the tokens of the first prompt are "
        "still attended",
    .symptom = "the second conversation of a process knows the first one",
    .cause = "the counter that is reported is not the one that attention uses",
    .fix = "reset every length, or keep one",
    .source = "textbook",
    .trigger = "a reset of a sequence that holds tokens, and a step after it",
    .killed_by = {"cache_reset_forgets", "cache_agrees_with_history"},
    .when = "commands(verb == reset && before > 0)",
};

// Truncate shortens the keys only.
class CacheTruncateKeepsValues : public ContiguousCache {
 public:
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

 protected:
  // Behind the old end, but inside of the head.
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    const int64_t token =
        before + j + kept_[static_cast<size_t>(step.sequence)];
    return first_slot(step.sequence, head, before) +
           std::min(token, 2 * shape().capacity - 1);
  }

 private:
  std::vector<int64_t> kept_;  // values too many, a sequence
};
QKVET_FAULT(cache_truncate_keeps_values) = {
    .kernel = cache_fault<CacheTruncateKeepsValues>,
    .mechanism =
        "values are appended behind the end that they had before the "
        "truncation",
    .symptom =
        "after rejected speculation keys meet the values of tokens that were "
        "rejected",
    .cause = "keys and values have a length each, and truncate knows of one",
    .fix = "truncate both, or keep one length",
    .source = "textbook",
    .trigger = "a truncation that drops tokens, and a step after it",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
    .when = "commands(verb == truncate && held < before) && commands(new > 0)",
};

// Truncate clears the whole sequence.
class CacheRollbackClearsAll : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

  void truncate(int64_t sequence, int64_t tokens) override {
    if (tokens < held(sequence)) {
      clear_slots(shape(), memory(sequence), first_slot(sequence, 0, /*n=*/0),
                  shape().kv_heads * shape().capacity);
    }
    ContiguousCache::truncate(sequence, tokens);
  }
};
QKVET_FAULT(cache_rollback_clears_all) = {
    .kernel = cache_fault<CacheRollbackClearsAll>,
    .mechanism =
        "a rollback clears the memory of the sequence, and keeps its length",
    .symptom = "after the first rejected draft a query attends over zeros",
    .cause =
        "rollback calls the function that empties a cache, and restores the "
        "length",
    .fix = "keep the rows in front of the new end",
    .source = "paiml/aprender#2014",
    .trigger = "a truncation that keeps tokens",
    .killed_by = {"cache_truncate_forgets"},
    .when = "commands(verb == truncate && 0 < held && held < before)",
};

// A truncation is counted one step too late.
class CacheCounterOneLate : public ContiguousCache {
 public:
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

 protected:
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
    for (size_t s = 0; s < next.size(); ++s) {
      next[s] = late(parents[s]);
    }
    late_ = std::move(next);
  }

 private:
  int64_t late(int64_t sequence) const {
    return late_[static_cast<size_t>(sequence)];
  }

  std::vector<int64_t> late_;  // tokens that the next step takes back
};
QKVET_FAULT(cache_counter_one_late) = {
    .kernel = cache_fault<CacheCounterOneLate>,
    .mechanism =
        "rejected tokens are taken off the counter behind the next step, whose "
        "own tokens go instead",
    .symptom =
        "every length is right; after a rejection the rejected tokens are "
        "there and the new ones are not",
    .cause =
        "the counter of processed tokens is corrected at the end of an "
        "iteration",
    .fix = "correct the counter before anything is appended",
    .source = "openvinotoolkit/openvino.genai#4190",
    .trigger = "a truncation that drops tokens, and a step after it",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
    .when = "commands(verb == truncate && held < before)",
};

// A single query attends over a length that counts rejected tokens.
class CacheLengthFromFullDraft : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t attended(const CacheStep& step, int64_t keys) const override {
    return step.queries == 1 ? std::max(keys, mark(step.sequence)) : keys;
  }
};
QKVET_FAULT(cache_length_from_full_draft) = {
    .kernel = cache_fault<CacheLengthFromFullDraft, /*kOptions=*/0>,
    .mechanism =
        "a single query attends over the longest that the sequence was, drafts "
        "included that were rejected",
    .symptom =
        "right while every draft is accepted; then answers depend on tokens "
        "that are not in the text",
    .cause = "the lengths of a batch are gathered before verification",
    .fix = "gather lengths after drafts are accepted or rejected",
    .source = "lightseekorg/tokenspeed#217",
    .trigger = "a truncation that drops tokens, and a single query after it",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
    .when = "commands(held < before) && commands(queries == 1)",
};

// A cache whose last tile of keys counts as a whole: what its slots behind the
// end hold takes part, with the weight that a fault gives it:
// Hooks::weighed(stale) is what a value behind the end adds.
template <class Hooks>
class StaleTailCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
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
          for (int64_t c = 0; c < call.value_width; ++c) {
            o[c * call.o.step[3]] += Hooks::weighed(v[c * call.v.step[3]]);
          }
        }
      }
    }
    return status;
  }

 private:
  mutable int64_t behind_ = 0;  // slots of the last tile without a token
};

// Slots behind the end take part with weight 0.
struct CacheStaleValueTimesZero {
  static float weighed(float stale) { return 0 * stale; }
};
QKVET_FAULT(cache_stale_value_times_zero) = {
    .kernel =
        cache_fault<StaleTailCache<CacheStaleValueTimesZero>, /*kOptions=*/0>,
    .mechanism =
        "the last tile of keys is masked by its weights, which are 0, and 0 "
        "times NaN is NaN",
    .symptom =
        "right on a fresh cache; NaN after the pool has been filled once",
    .cause =
        "scores are masked and values are not: what slots hold behind the end "
        "is taken to be finite",
    .fix = "do not read values behind the end, or clear them",
    .source = "vllm-project/vllm#936, #43961",
    .trigger =
        "a sequence that does not fill its last tile, and NaN in what the tile "
        "held before",
    .killed_by = {"cache_reset_forgets", "cache_truncate_forgets"},
    .when =
        "(commands(held < before) || commands(verb == fork || verb == "
        "reorder)) && commands(queries > 0 && held % 4 != 0)",
    .tiled = true,
};

// Slots behind the end take part with a weight that is nearly 0.
struct CacheStaleValueNearlyZero {
  // What is not finite was found once, and is cleared since. The weight is
  // about exp(-10): of a mask that is a number.
  static float weighed(float stale) {
    return std::isfinite(stale) ? 0x1p-14f * stale : 0;
  }
};
QKVET_FAULT(cache_stale_value_nearly_zero) = {
    .kernel =
        cache_fault<StaleTailCache<CacheStaleValueNearlyZero>, /*kOptions=*/0>,
    .mechanism =
        "the last tile of keys is masked by a number that is not low enough: "
        "weights behind the end are 2^-14 and not 0",
    .symptom =
        "the last bits of an answer depend on what a slot held before; greedy "
        "decoding splits in two",
    .cause = "a mask that is added to the scores, chosen so that tests passed",
    .fix = "select after the exponential: behind the end a weight is 0",
    .source = "vllm-project/vllm#53856",
    .trigger =
        "a sequence that does not fill its last tile, and numbers in what the "
        "tile held before",
    .killed_by = {"cache_agrees_with_history"},
    .when =
        "(commands(held < before) || commands(verb == fork || verb == "
        "reorder)) && commands(queries > 0 && held % 4 != 0)",
    .tiled = true,
};

}  // namespace qkvet::impl
