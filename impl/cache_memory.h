// SPDX-License-Identifier: Apache-2.0
// Caches that keep the tokens of a head one behind the other, in the storage
// type: a token of a head is a slot, and a class says which one.
#ifndef QKVET_IMPL_CACHE_MEMORY_H_
#define QKVET_IMPL_CACHE_MEMORY_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "impl/cache_frame.h"

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

class SlotCache : public Cache {
 public:
  using Cache::Cache;

 protected:
  virtual const TokenMemory& memory(int64_t sequence) const = 0;
  // Where token 0 of a head lies while n tokens are there; token t is t slots
  // further.
  virtual int64_t first_slot(int64_t sequence, int64_t head,
                             int64_t n) const = 0;
  // Where token j of a step goes.
  virtual int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                           int64_t j) const {
    return first_slot(step.sequence, head, before + step.tokens) + before + j;
  }
  virtual int64_t value_slot(const CacheStep& step, int64_t before,
                             int64_t head, int64_t j) const {
    return first_slot(step.sequence, head, before + step.tokens) + before + j;
  }

  void write(const CacheStep& step, int64_t before) override;
  Rows keys(int64_t sequence, int64_t head, int64_t n,
            float* room) const override;
  Rows values(int64_t sequence, int64_t head, int64_t n,
              float* room) const override;
};

// Room for all tokens from the start: [sequences, Hkv, capacity, d].
class ContiguousCache : public SlotCache {
 public:
  explicit ContiguousCache(const CacheShape& shape)
      : ContiguousCache(shape, shape.capacity) {}

 protected:
  // With more slots a head than the capacity says.
  ContiguousCache(const CacheShape& shape, int64_t slots);

  const char* reserve(int64_t sequence, int64_t tokens) override;
  const TokenMemory& memory(int64_t) const override { return memory_; }
  int64_t first_slot(int64_t sequence, int64_t head, int64_t) const override {
    return (sequence * shape().kv_heads + head) * slots_;
  }

 private:
  int64_t slots_;  // a head
  TokenMemory memory_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CACHE_MEMORY_H_
