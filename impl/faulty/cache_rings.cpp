// SPDX-License-Identifier: Apache-2.0
// Faults of caches with a window, and of the ring that holds it.
#include <algorithm>

#include "impl/faulty/cache_fault.h"
#include "impl/kv_cache/ring.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

struct CacheWindowOneTooWide : ContiguousCache {
  using ContiguousCache::ContiguousCache;
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
QKVET_FAULT(cache_window_one_too_wide,
            kCacheFault<CacheWindowOneTooWide,
                        QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && cache.first_tokens == 0 && commands(queries > "
            "0 && held > cache.window)",
    .cause = "a query sees window + 1 keys: the window counts the keys before "
             "the query, without the query",
    .fix = "the query is one of the keys of its window",
    .killed_by = {"cache_agrees_with_history"},
};

struct CacheFirstTokensForgotten : ContiguousCache {
  using ContiguousCache::ContiguousCache;
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    if (seen.count == 2) {
      seen.runs[0] = seen.runs[1];
      seen.count = 1;
    }
    return seen;
  }
};
QKVET_FAULT(cache_first_tokens_forgotten,
            kCacheFault<CacheFirstTokensForgotten,
                        QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && cache.first_tokens > 0 && commands(queries > "
            "0 && held > cache.window)",
    .cause = "the first tokens leave the sight of a query like all others",
    .fix = "keep the first tokens beside the window",
    .source = "textbook (StreamingLLM, attention sinks)",
    .killed_by = {"cache_agrees_with_history"},
};

struct CacheRingOverflows : RingCache {
  using RingCache::RingCache;
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
  Rows gather(const Reading& reading, const Memory& from, int64_t width,
              float* room) const {
    const int64_t first = first_slot(reading.sequence, reading.head, /*n=*/0);
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width)
      load_rows(shape().storage, from, first + offset(j), 1, width, to);
    return {room, width, 1};
  }
};
QKVET_FAULT(
    cache_ring_overflows,
    kCacheFault<CacheRingOverflows, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && commands(held > cache.window)",
    .cause = "the tokens of a step overwrite those that its first queries "
             "still see: the ring has room for a window alone",
    .fix = "attend over ring and chunk, and write the chunk last",
    .source = "pytorch/executorch#20346",
    .killed_by = {"cache_decode_equals_prefill", "cache_agrees_with_history"},
};

struct CacheRingMaskOfAllSlots : ContiguousCache {
  using ContiguousCache::ContiguousCache;
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
QKVET_FAULT(cache_ring_mask_of_all_slots,
            kCacheFault<CacheRingMaskOfAllSlots,
                        QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && cache.rollback > 0 && commands(queries > 0 && "
            "held > cache.window)",
    .cause = "the mask has the size of the ring, which also keeps tokens for a "
             "truncation",
    .fix = "mask by the window, whatever the size of the buffer",
    .source = "lablup/mlxcel#1776",
    .killed_by = {"cache_agrees_with_history"},
};

struct CacheRingTrimMovesCounter : RingCache {
  explicit CacheRingTrimMovesCounter(const CacheShape& shape)
      : RingCache(shape, slots_for(shape)) {}
  static int64_t slots_for(const CacheShape& shape) {
    return shape.window == 0 ? shape.capacity
                             : std::min(shape.capacity, shape.reach());
  }
};
QKVET_FAULT(cache_ring_trim_moves_counter,
            kCacheFault<CacheRingTrimMovesCounter,
                        QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && cache.rollback > 0 && commands(held > "
            "cache.window)",
    .cause = "a truncation lowers the counter; the tokens that rejected ones "
             "have overwritten are gone",
    .fix = "keep as many slots more as tokens can be taken back, or refuse to "
           "take them back",
    .source = "ml-explore/mlx-lm#1486, ollama/ollama#14912",
    .killed_by = {"cache_truncate_forgets", "cache_agrees_with_history"},
};

struct CacheRingGrowthNegative : RingCache {
  using RingCache::RingCache;
  const char* reserve(int64_t sequence, int64_t tokens) override {
    const int64_t growth = std::min(tokens, slots()) - held(sequence);
    return growth < 0 ? "no memory for a negative number of slots"
                      : RingCache::reserve(sequence, tokens);
  }
};
QKVET_FAULT(cache_ring_growth_negative,
            kCacheFault<CacheRingGrowthNegative,
                        QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && commands(before > cache.window)",
    .cause = "the buffer grows by slots - counter, and the counter goes on "
             "when the ring is full",
    .fix = "grow by what is missing to the slots that are allocated",
    .source = "ml-explore/mlx-lm#950",
    .killed_by = {"cache_chunks_equal_whole", "cache_agrees_with_history"},
};

struct CacheRingLengthFromWritePointer : RingCache {
  using RingCache::RingCache;
  // A copy begins as zeros.
  void rearrange(const int64_t* parents) override {
    RingCache::rearrange(parents);
    for (int64_t s = 0; s < shape().sequences; ++s) {
      const int64_t copied = parents[s] == s ? slots() : pointer(parents[s]);
      for (int64_t head = 0; head < shape().kv_heads; ++head)
        clear_slots(shape(), memory(s), first_slot(s, head, /*n=*/0) + copied,
                    slots() - copied);
    }
  }
  // Where the next token would go; behind the last slot while it is the first
  // time around.
  int64_t pointer(int64_t sequence) const {
    const int64_t next = held(sequence);
    return next == slots() ? next : offset(next);
  }
};
QKVET_FAULT(cache_ring_length_from_write_pointer,
            kCacheFault<CacheRingLengthFromWritePointer,
                        QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "cache.window > 0 && commands(held > cache.window) && "
            "commands(verb == fork || verb == reorder)",
    .cause = "a copy of a sequence takes the slots before the write pointer, "
             "which is not the length once the ring is full",
    .fix = "the number of slots is that of the tokens or of the ring, "
           "whichever is smaller",
    .source = "jundot/omlx#543",
    .killed_by = {"cache_forks_are_independent"},
};

struct CacheRingRopeBySlot : RingCache {
  using RingCache::RingCache;
  int64_t position(const CacheStep&, int64_t, int64_t j) const override {
    return offset(j);
  }
};
QKVET_FAULT(
    cache_ring_rope_by_slot,
    kCacheFault<CacheRingRopeBySlot, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>) = {
    .when = "rope && (cache.window > 0 && commands(held > cache.window) || "
            "commands(verb == evict && first < held))",
    .cause = "the position of a token is its place in the ring: the buffer's "
             "length is used after an eviction",
    .fix = "count positions in the sequence, and never back",
    .source = "rajveer43/VeloxQuant-MLX#389, textbook",
    .killed_by = {"cache_agrees_with_history"},
};

}  // namespace qkvet::impl
