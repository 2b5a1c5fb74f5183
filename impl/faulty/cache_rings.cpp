// SPDX-License-Identifier: Apache-2.0
// Faults of caches with a window, and of the ring that holds it.
#include <algorithm>

#include "impl/faulty/cache_fault.h"
#include "impl/kv_cache/ring.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

// A query sees one key more than the window.
class CacheWindowOneTooWide : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    Run& last = seen.runs[seen.count - 1];
    const int64_t fixed = seen.count == 1 ? 0 : seen.runs[0].end;
    last.begin -= last.begin > fixed && shape().first_tokens == 0 ? 1 : 0;
    return seen;
  }
  int64_t most_seen(int64_t keys) const override {
    return std::min(keys, ContiguousCache::most_seen(keys) + 1);
  }
};
QKVET_FAULT(cache_window_one_too_wide) = {
    .kernel = cache_fault<CacheWindowOneTooWide,
                          QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism = "a query sees window + 1 keys",
    .symptom =
        "right until a sequence is longer than the window, then a little off",
    .cause = "the window counts the keys behind the query, and not the query",
    .fix = "the query is one of the keys of its window",
    .source = "textbook",
    .trigger = "a window, and a sequence longer than it",
    .killed_by = {"cache_agrees_with_history"},
    .when =
        "cache.window > 0 && cache.first_tokens == 0 && commands(queries > 0 "
        "&& held > cache.window)",
};

// The window hides the first tokens, too.
class CacheFirstTokensForgotten : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    if (seen.count == 2) {
      seen.runs[0] = seen.runs[1];
      seen.count = 1;
    }
    return seen;
  }
};
QKVET_FAULT(cache_first_tokens_forgotten) = {
    .kernel = cache_fault<CacheFirstTokensForgotten,
                          QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism = "the first tokens leave the sight of a query as all others do",
    .symptom =
        "right until a sequence is longer than the window; then fluency "
        "collapses",
    .cause = "eviction counts from the front and knows no tokens that stay",
    .fix = "keep the first tokens beside the window",
    .source = "textbook (StreamingLLM, attention sinks)",
    .trigger = "a window with first tokens, and a sequence that outgrows both",
    .killed_by = {"cache_agrees_with_history"},
    .when =
        "cache.window > 0 && cache.first_tokens > 0 && commands(queries > 0 && "
        "held > cache.window)",
};

// A step is written to the ring before it is attended.
class CacheRingOverflows : public RingCache {
 public:
  using RingCache::RingCache;

 protected:
  void write(const CacheStep& step, int64_t before) override {
    ContiguousCache::write(step, before);
  }
  void advance(const CacheStep& step) override {
    ContiguousCache::advance(step);
  }
  Rows keys(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).keys, shape().width, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).values, shape().value_width,
                  room);
  }

 private:
  Rows gather(const Reading& reading, const Memory& from, int64_t width,
              float* room) const {
    const int64_t first = first_slot(reading.sequence, reading.head, /*n=*/0);
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width) {
      load_rows(shape().storage, from, first + offset(j), 1, width, to);
    }
    return {room, width, 1};
  }
};
QKVET_FAULT(cache_ring_overflows) = {
    .kernel =
        cache_fault<CacheRingOverflows, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism =
        "the tokens of a step overwrite those that its first queries still see",
    .symptom =
        "decode is right; the first rows of a chunk see later tokens in the "
        "place of earlier ones",
    .cause =
        "the ring has room for a window, and a chunk is written before it is "
        "attended",
    .fix = "attend over ring and chunk, and write the chunk last",
    .source = "pytorch/executorch#20346",
    .trigger = "a window, and a step that goes around the ring",
    .killed_by = {"cache_decode_equals_prefill", "cache_agrees_with_history"},
    .when = "cache.window > 0 && commands(held > cache.window)",
};

// A query sees all that the ring holds.
class CacheRingMaskOfAllSlots : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    Run& last = seen.runs[seen.count - 1];
    const int64_t fixed = seen.count == 1 ? 0 : seen.runs[0].end;
    last.begin = std::max(fixed, last.begin - shape().rollback);
    return seen;
  }
  int64_t most_seen(int64_t keys) const override {
    return std::min(keys, add_up_to_most(shape().reach(), shape().rollback));
  }
};
QKVET_FAULT(cache_ring_mask_of_all_slots) = {
    .kernel = cache_fault<CacheRingMaskOfAllSlots,
                          QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism =
        "the mask has the size of the ring, which also keeps what may be taken "
        "back",
    .symptom =
        "right with a ring that is as large as the window; with spare slots a "
        "query sees older tokens",
    .cause =
        "the mask is made for the keys that are allocated, not for those that "
        "are visible",
    .fix = "mask by the window, whatever the size of the buffer",
    .source = "lablup/mlxcel#1776",
    .trigger = "a window with rollback, and a sequence longer than the window",
    .killed_by = {"cache_agrees_with_history"},
    .when =
        "cache.window > 0 && cache.rollback > 0 && commands(queries > 0 && "
        "held > cache.window)",
};

// A ring has no slots for tokens that may be taken back.
class CacheRingTrimMovesCounter : public RingCache {
 public:
  explicit CacheRingTrimMovesCounter(const CacheShape& shape)
      : RingCache(shape, slots_for(shape)) {}

 private:
  static int64_t slots_for(const CacheShape& shape) {
    return shape.window == 0 ? shape.capacity
                             : std::min(shape.capacity, shape.reach());
  }
};
QKVET_FAULT(cache_ring_trim_moves_counter) = {
    .kernel = cache_fault<CacheRingTrimMovesCounter,
                          QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism =
        "a truncation lowers the counter; the tokens that rejected ones have "
        "overwritten are gone",
    .symptom =
        "rollback is right until the ring is full; then queries see rejected "
        "keys in the place of older ones",
    .cause =
        "the ring has as many slots as the window, and rollback is a matter of "
        "the counter only",
    .fix =
        "keep as many slots more as tokens can be taken back, or refuse to "
        "take them back",
    .source = "ml-explore/mlx-lm#1486, ollama/ollama#14912",
    .trigger = "a window that is full, and a truncation that drops tokens",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
    .when =
        "cache.window > 0 && cache.rollback > 0 && commands(held > "
        "cache.window)",
};

// A ring grows by what is missing to a counter.
class CacheRingGrowthNegative : public RingCache {
 public:
  using RingCache::RingCache;

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    const int64_t growth = std::min(tokens, slots()) - held(sequence);
    return growth < 0 ? "no memory for a negative number of slots"
                      : RingCache::reserve(sequence, tokens);
  }
};
QKVET_FAULT(cache_ring_growth_negative) = {
    .kernel = cache_fault<CacheRingGrowthNegative,
                          QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism =
        "the buffer grows by slots - counter, and the counter goes on when the "
        "ring is full",
    .symptom =
        "right until a session is longer than its window; then it ends with an "
        "allocation error",
    .cause = "the counter of tokens stands for the size of the buffer",
    .fix = "grow by what is missing to the slots that are allocated",
    .source = "ml-explore/mlx-lm#950",
    .trigger = "a window, and a step behind a sequence longer than it",
    .killed_by = {"cache_chunks_equal_whole", "cache_agrees_with_history"},
    .when = "cache.window > 0 && commands(before > cache.window)",
};

// A copy has as many slots as the write pointer says.
class CacheRingLengthFromWritePointer : public RingCache {
 public:
  using RingCache::RingCache;

 protected:
  // A copy begins as zeros.
  void rearrange(const int64_t* parents) override {
    RingCache::rearrange(parents);
    for (int64_t s = 0; s < shape().sequences; ++s) {
      const int64_t copied = parents[s] == s ? slots() : pointer(parents[s]);
      for (int64_t head = 0; head < shape().kv_heads; ++head) {
        clear_slots(shape(), memory(s), first_slot(s, head, /*n=*/0) + copied,
                    slots() - copied);
      }
    }
  }

 private:
  // Where the next token would go; behind the last slot while it is the first
  // time around.
  int64_t pointer(int64_t sequence) const {
    const int64_t next = held(sequence);
    return next == slots() ? next : offset(next);
  }
};
QKVET_FAULT(cache_ring_length_from_write_pointer) = {
    .kernel = cache_fault<CacheRingLengthFromWritePointer,
                          QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism =
        "a copy of a sequence takes the slots in front of the write pointer",
    .symptom =
        "right while a sequence fits its window; afterwards a fork has lost a "
        "part of it",
    .cause =
        "the write pointer is taken for the number of slots that are filled, "
        "and is not after it has gone around",
    .fix =
        "the number of slots is that of the tokens or of the ring, whichever "
        "is smaller",
    .source = "jundot/omlx#543",
    .trigger =
        "a window, a sequence that has gone around its ring, and a fork of it",
    .killed_by = {"cache_forks_are_independent"},
    .when =
        "cache.window > 0 && commands(held > cache.window) && commands(verb == "
        "fork || verb == reorder)",
};

// A token is rotated by the slot of the ring that it lies in.
class CacheRingRopeBySlot : public RingCache {
 public:
  using RingCache::RingCache;

 protected:
  int64_t position(const CacheStep&, int64_t, int64_t j) const override {
    return offset(j);
  }
};
QKVET_FAULT(cache_ring_rope_by_slot) = {
    .kernel =
        cache_fault<CacheRingRopeBySlot, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>,
    .mechanism = "the position of a token is its place in the ring",
    .symptom =
        "right until the ring has gone around; then distances jump where it "
        "begins again",
    .cause = "after eviction the length of the buffer counts as the position",
    .fix = "count positions in the sequence, and never back",
    .source = "rajveer43/VeloxQuant-MLX#389, textbook",
    .trigger =
        "a rotation, a window, and a sequence that has gone around its ring",
    .killed_by = {"cache_agrees_with_history"},
    .when =
        "rope && (cache.window > 0 && commands(held > cache.window) || "
        "commands(verb == evict && first < held))",
};

}  // namespace qkvet::impl
