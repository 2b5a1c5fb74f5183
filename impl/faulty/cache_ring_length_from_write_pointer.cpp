// SPDX-License-Identifier: Apache-2.0
// faulty/cache_ring_length_from_write_pointer: a copy has as many slots as
// the write pointer says.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/ring.h"

namespace qkvet::impl {
namespace {

class RingLengthFromWritePointer : public RingCache {
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

constexpr const char* kKilledBy[] = {"cache_forks_are_independent", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
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
    .killed_by = kKilledBy,
    .when =
        "cache.window > 0 && commands(held > cache.window) && commands(verb == "
        "fork || verb == reorder)",
};

}  // namespace

extern constinit const qkvet_kernel
    faulty_cache_ring_length_from_write_pointer =
        faulty_cache<RingLengthFromWritePointer,
                     QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
            "faulty/cache_ring_length_from_write_pointer", &kFault,
            {"impl/faulty/cache_ring_length_from_write_pointer.cpp", __LINE__});

}  // namespace qkvet::impl
