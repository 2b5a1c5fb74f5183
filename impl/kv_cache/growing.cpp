// SPDX-License-Identifier: Apache-2.0
// kv_cache/growing: [Hkv, room, d] for each sequence; the room doubles when a
// step needs more; the capacity is only a hint, and not used. A reset keeps the
// room; a fork has that of its parent.
//
// Cost: n tokens one by one move fewer than 2 n rows. Contract: that of
// cache_skeleton.h; a step is OUT_OF_MEMORY when the allocation fails.
#include <new>
#include <utility>
#include <vector>

#include "impl/kv_cache/kernel.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {
namespace {

// Small enough that it also grows in short tests.
constexpr int64_t kFirstRoom = 4;

class GrowingCache : public SlotCache {
 public:
  explicit GrowingCache(const CacheShape& shape)
      : SlotCache(shape), buffers_(static_cast<size_t>(shape.sequences)) {}

  int64_t bytes() const override {
    int64_t slots = 0;
    for (const Buffer& buffer : buffers_) {
      slots += shape().kv_heads * buffer.room;
    }
    return slots * bytes_of_slot(shape());
  }

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    Buffer& old = buffers_[static_cast<size_t>(sequence)];
    if (tokens <= old.room) {
      return nullptr;
    }
    const int64_t doubled = old.room == 0 ? kFirstRoom : 2 * old.room;
    Buffer grown =
        copy_of(old, doubled < tokens ? tokens : doubled, held(sequence));
    if (!grown.memory.present()) {
      return "no memory for more tokens";
    }
    old = std::move(grown);
    return nullptr;
  }

  void rearrange(const int64_t* parents) override {
    std::vector<Buffer> next(buffers_.size());
    for (size_t s = 0; s < next.size(); ++s) {
      const Buffer& parent = buffers_[static_cast<size_t>(parents[s])];
      if (parents[s] != static_cast<int64_t>(s) && parent.room > 0) {
        next[s] = copy_of(parent, parent.room, held(parents[s]));
        if (!next[s].memory.present()) {
          throw std::bad_alloc();
        }
      }
    }
    for (size_t s = 0; s < next.size(); ++s) {
      if (parents[s] != static_cast<int64_t>(s)) {
        buffers_[s] = std::move(next[s]);
      }
    }
  }

  const TokenMemory& memory(int64_t sequence) const override {
    return buffers_[static_cast<size_t>(sequence)].memory;
  }
  int64_t first_slot(int64_t sequence, int64_t head, int64_t) const override {
    return head * buffers_[static_cast<size_t>(sequence)].room;
  }

 private:
  struct Buffer {
    int64_t room = 0;  // slots a head
    TokenMemory memory;
  };

  // A copy with other room; without data if there is no memory.
  Buffer copy_of(const Buffer& from, int64_t room, int64_t tokens) const {
    Buffer copy = {room, {}};
    int64_t slots = 0;
    if (!__builtin_mul_overflow(room, shape().kv_heads, &slots)) {
      copy.memory = TokenMemory::of(shape(), slots);
    }
    for (int64_t head = 0; copy.memory.present() && head < shape().kv_heads;
         ++head) {
      copy_slots(shape(), from.memory, head * from.room, copy.memory,
                 head * room, tokens);
    }
    return copy;
  }

  std::vector<Buffer> buffers_;
};

}  // namespace

extern constinit const qkvet_kernel kv_cache_growing = family_cache(
    QKVET_FAMILY "/growing", "memory a sequence, doubled when it is full",
    {"impl/kv_cache/growing.cpp", __LINE__},
    &kCacheTable<GrowingCache,
                 kCacheOptions | kCacheScores | QKVET_CACHE_GROWS>);

}  // namespace qkvet::impl
