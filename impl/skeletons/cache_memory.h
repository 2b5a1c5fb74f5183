// SPDX-License-Identifier: Apache-2.0
// Caches that keep the tokens of a head contiguous, in the storage type: a
// token of a head is a slot, and a class determines which one.
#ifndef QKVET_IMPL_SKELETONS_CACHE_MEMORY_H_
#define QKVET_IMPL_SKELETONS_CACHE_MEMORY_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "impl/skeletons/cache_skeleton.h"

namespace qkvet::impl {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

// [slots, d] and [slots, dv] in the storage type, all zero.
struct TokenMemory {
  Memory keys;  // NULL: there was no memory, for one or the other
  Memory values;

  static TokenMemory of(const CacheShape& shape, int64_t slots);
  bool present() const { return keys != nullptr; }
};

// Bytes for the key and the value of one head.
inline int64_t bytes_of_slot(const CacheShape& shape) {
  return (shape.width + shape.value_width) * bytes_of(shape.storage);
}
// Copies n slots to another memory or to another place in the same one.
void copy_slots(const CacheShape& shape, const TokenMemory& from,
                int64_t from_slot, const TokenMemory& to, int64_t to_slot,
                int64_t n);
// n slots of both memories become zero.
void clear_slots(const CacheShape& shape, const TokenMemory& memory,
                 int64_t first, int64_t n);
// Token j of a step, one head, in both memories.
void store_token(const CacheShape& shape, const CacheStep& step, int64_t head,
                 int64_t j, const TokenMemory& to, int64_t key_slot,
                 int64_t value_slot);
// n rows of a memory from slot `first` on: in place if they are f32, else
// converted to `room`.
Rows rows_of(Storage type, const Memory& memory, int64_t first, int64_t n,
             int64_t width, float* room);
// The same, always copied to `to`.
void load_rows(Storage type, const Memory& memory, int64_t first, int64_t n,
               int64_t width, float* to);

// sequences * Hkv * slots, or throws.
int64_t all_slots(const CacheShape& shape, int64_t slots);

// [sequences, bytes]: sequences become copies of others. Everything needed is
// read before anything is written, even with several memories.
class Regions {
 public:
  // Throws if there is no memory.
  Regions(void* memory, int64_t bytes, const int64_t* parents,
          int64_t sequences);
  void write() const;

 private:
  char* memory_;
  size_t bytes_;
  std::vector<int64_t> changed_;
  std::vector<char> was_;  // [changed, bytes]
};

// Sequences of `slots` slots each become copies of others. Throws if there is
// no memory, and has then changed nothing.
void copy_sequences(const CacheShape& shape, const TokenMemory& memory,
                    int64_t slots, const int64_t* parents);

// The reason of refusal of a cache without room beyond its capacity.
inline constexpr const char* kBeyondCapacity =
    "the sequence would hold more tokens than the capacity";

class SlotCache : public Cache {
 public:
  using Cache::Cache;

 protected:
  virtual const TokenMemory& memory(int64_t sequence) const = 0;
  // The slot of token 0 of a head when the cache holds n tokens; token t is t
  // slots further.
  virtual int64_t first_slot(int64_t sequence, int64_t head,
                             int64_t n) const = 0;
  // The slot for token j of a step.
  virtual int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                           int64_t j) const {
    return first_slot(step.sequence, head, before + step.tokens) + before + j;
  }
  virtual int64_t value_slot(const CacheStep& step, int64_t before,
                             int64_t head, int64_t j) const {
    return first_slot(step.sequence, head, before + step.tokens) + before + j;
  }

  void write(const CacheStep& step, int64_t before) override;
  Rows keys(const Reading& reading, float* room) const override;
  Rows values(const Reading& reading, float* room) const override;
  void remove(int64_t sequence, int64_t first, int64_t tokens) override;
};

// Room for all tokens from the start: [sequences, Hkv, capacity, d].
class ContiguousCache : public SlotCache {
 public:
  explicit ContiguousCache(const CacheShape& shape)
      : ContiguousCache(shape, shape.capacity) {}

  int64_t bytes() const override {
    return shape().sequences * shape().kv_heads * slots_ *
           bytes_of_slot(shape());
  }

 protected:
  // With another number of slots a head than the capacity.
  ContiguousCache(const CacheShape& shape, int64_t slots);

  const char* reserve(int64_t sequence, int64_t tokens) override;
  void rearrange(const int64_t* parents) override;
  const TokenMemory& memory(int64_t) const override { return memory_; }
  int64_t first_slot(int64_t sequence, int64_t head, int64_t) const override {
    return (sequence * shape().kv_heads + head) * slots_;
  }

 private:
  int64_t slots_;  // a head
  TokenMemory memory_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_CACHE_MEMORY_H_
