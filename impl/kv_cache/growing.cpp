// SPDX-License-Identifier: Apache-2.0
// kv_cache/growing: [Hkv, room, d] for each sequence, whose room doubles when a
// step needs more; the capacity is only a hint, and not taken. A reset keeps
// the room.
//
// Cost: n tokens one by one move fewer than 2 n rows. Contract: that of
// cache_frame.h; a step is OUT_OF_MEMORY when the machine says so.
#include <cstring>
#include <utility>
#include <vector>

#include "impl/cache_frame.h"
#include "impl/cache_memory.h"

namespace qkvet::impl {
namespace {

// Small enough that short tests grow, too.
constexpr int64_t kFirstRoom = 4;

class GrowingCache : public SlotCache {
 public:
  explicit GrowingCache(const CacheShape& shape)
      : SlotCache(shape), buffers_(static_cast<size_t>(shape.sequences)) {}

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    Buffer& old = buffers_[static_cast<size_t>(sequence)];
    if (tokens <= old.room) {
      return nullptr;
    }
    int64_t room = old.room == 0 ? kFirstRoom : 2 * old.room;
    room = room < tokens ? tokens : room;
    Buffer grown = {room, {}};
    int64_t slots = 0;
    if (!__builtin_mul_overflow(room, shape().kv_heads, &slots)) {
      grown.memory = TokenMemory::of(shape(), slots);
    }
    if (!grown.memory.present()) {
      return "no memory for more tokens";
    }
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      move_rows(old.memory.keys, grown.memory.keys, shape().width, head,
                held(sequence), old.room, room);
      move_rows(old.memory.values, grown.memory.values, shape().value_width,
                head, held(sequence), old.room, room);
    }
    old = std::move(grown);
    return nullptr;
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

  // The first n rows of a head, from a buffer of one room to another.
  void move_rows(const Memory& from, const Memory& to, int64_t width,
                 int64_t head, int64_t n, int64_t from_room,
                 int64_t to_room) const {
    const int64_t row = width * bytes_of(shape().storage);
    if (n > 0) {
      std::memcpy(static_cast<char*>(to.get()) + head * to_room * row,
                  static_cast<const char*>(from.get()) + head * from_room * row,
                  static_cast<size_t>(n * row));
    }
  }

  std::vector<Buffer> buffers_;
};

}  // namespace

extern constinit const qkvet_kernel kv_cache_growing = cache_kernel(
    "kv_cache/growing", "memory a sequence, doubled when it is full",
    {"impl/kv_cache/growing.cpp", __LINE__},
    &kCacheTable<GrowingCache, QKVET_CACHE_GROWS | QKVET_CACHE_ROPE>);

}  // namespace qkvet::impl
