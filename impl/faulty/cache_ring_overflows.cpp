// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_overflows: a step is written to the ring before it is
// attended.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class RingOverflows : public ContiguousCache {
 public:
  explicit RingOverflows(const CacheShape& shape)
      : ContiguousCache(shape, slots_for(shape)), slots_(slots_for(shape)) {}

 protected:
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t j) const override {
    return slot(step.sequence, head, before + j);
  }
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    return slot(step.sequence, head, before + j);
  }

  Rows keys(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).keys, shape().width, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).values, shape().value_width,
                  room);
  }

 private:
  static int64_t slots_for(const CacheShape& shape) {
    return shape.window == 0
               ? shape.capacity
               : std::min(shape.capacity,
                          add_up_to_most(shape.reach(), shape.rollback));
  }

  int64_t slot(int64_t sequence, int64_t head, int64_t token) const {
    const int64_t fixed = shape().first_tokens;
    return first_slot(sequence, head, /*n=*/0) +
           (token < slots_ ? token
                           : fixed + (token - fixed) % (slots_ - fixed));
  }

  Rows gather(const Reading& reading, const Memory& from, int64_t width,
              float* room) const {
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width) {
      load_rows(shape().storage, from, slot(reading.sequence, reading.head, j),
                1, width, to);
    }
    return {room, width, 1};
  }

  int64_t slots_;  // a head
};

constexpr const char* kKilledBy[] = {"cache_decode_equals_prefill",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
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
    .killed_by = kKilledBy,
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_ring_overflows =
    faulty_cache<RingOverflows, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_ring_overflows", &kFault,
        {"impl/faulty/cache_ring_overflows.cpp", __LINE__});

}  // namespace qkvet::impl
