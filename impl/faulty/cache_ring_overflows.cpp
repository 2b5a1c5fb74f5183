// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_overflows: a step is written to the ring before it is
// attended.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/ring.h"

namespace qkvet::impl {
namespace {

class RingOverflows : public RingCache {
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
    .when = "cache.window > 0 && commands(held > cache.window)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_ring_overflows =
    faulty_cache<RingOverflows, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_ring_overflows", &kFault,
        {"impl/faulty/cache_ring_overflows.cpp", __LINE__});

}  // namespace qkvet::impl
