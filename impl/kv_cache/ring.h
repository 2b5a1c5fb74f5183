// SPDX-License-Identifier: Apache-2.0
// With a window: the first tokens, then a ring of window + rollback slots,
// [sequences, Hkv, slots, d]; token t goes to slot t modulo the ring. Without a
// window, or with a smaller capacity: a slot a token.
//
// The mark of a sequence (cache_skeleton.h) limits later queries: none has a
// position before mark - rollback - 1, and none sees more than `window` keys up
// to its own. So the last window + rollback tokens before the mark are enough,
// wherever the sequence was cut meanwhile.
//
// A step may be longer than the ring. Its tokens are read from the caller's
// tensors and stored last, when nothing can fail any more: they overwrite
// tokens that queries of the same step see.
#ifndef QKVET_IMPL_KV_CACHE_RING_H_
#define QKVET_IMPL_KV_CACHE_RING_H_

#include <algorithm>
#include <cstdint>

#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

// Slots a head.
inline int64_t ring_slots(const CacheShape& shape) {
  return shape.window == 0
             ? shape.capacity
             : std::min(shape.capacity,
                        add_up_to_most(shape.reach(), shape.rollback));
}

class RingCache : public ContiguousCache {
 public:
  explicit RingCache(const CacheShape& shape)
      : RingCache(shape, ring_slots(shape)) {}

 protected:
  RingCache(const CacheShape& shape, int64_t slots)
      : ContiguousCache(shape, slots), slots_(slots) {}

  void write(const CacheStep& step, int64_t) override { pending_ = step; }

  void advance(const CacheStep& step) override {
    if (step.tokens > 0) {
      ContiguousCache::write(step, held(step.sequence));
    }
    ContiguousCache::advance(step);
  }

  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t j) const override {
    return slot(step.sequence, head, before + j);
  }
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    return slot(step.sequence, head, before + j);
  }

  Rows keys(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).keys, pending_.k,
                  shape().width, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).values, pending_.v,
                  shape().value_width, room);
  }

  int64_t slots() const { return slots_; }
  // The slot of a token, counted from that of token 0.
  int64_t offset(int64_t token) const {
    const int64_t fixed = shape().first_tokens;
    return token < slots_ ? token : fixed + (token - fixed) % (slots_ - fixed);
  }

 private:
  int64_t slot(int64_t sequence, int64_t head, int64_t token) const {
    return first_slot(sequence, head, /*n=*/0) + offset(token);
  }

  Rows gather(const Reading& reading, const Memory& memory,
              const Stored& pending, int64_t width, float* room) const {
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width) {
      const int64_t ahead = j - held(reading.sequence);
      if (ahead < 0) {
        load_rows(shape().storage, memory,
                  slot(reading.sequence, reading.head, j), 1, width, to);
        continue;
      }
      for (int64_t c = 0; c < width; ++c) {
        to[c] = pending.get(0, reading.head, ahead, c);
      }
    }
    return {room, width, 1};
  }

  int64_t slots_;      // a head
  CacheStep pending_;  // its tokens are not stored yet
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_KV_CACHE_RING_H_
