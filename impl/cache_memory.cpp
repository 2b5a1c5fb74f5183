// SPDX-License-Identifier: Apache-2.0
#include "impl/cache_memory.h"

#include <cstddef>
#include <new>

namespace qkvet::impl {
namespace {

// Zero only so that no fault reads memory that was never written.
Memory zeros(int64_t rows, int64_t columns, Storage type) {
  int64_t bytes = 0;
  return __builtin_mul_overflow(rows, columns, &bytes) ||
                 __builtin_mul_overflow(bytes, bytes_of(type), &bytes)
             ? nullptr
             : Memory(std::calloc(static_cast<size_t>(bytes), 1));
}

void copy_row(const Stored& from, int64_t head, int64_t j, int64_t width,
              Storage type, void* to, int64_t slot) {
  for (int64_t c = 0; c < width; ++c) {
    store(type, to, slot * width + c, from.get(0, head, j, c));
  }
}

// n rows from slot `first` on: where they lie, or converted.
Rows rows_of(Storage type, const void* memory, int64_t first, int64_t n,
             int64_t width, float* room) {
  if (type == Storage::kF32) {
    return {static_cast<const float*>(memory) + first * width, width, 1};
  }
  for (int64_t index = 0; index < n * width; ++index) {
    room[index] = load(type, memory, first * width + index);
  }
  return {room, width, 1};
}

// sequences * Hkv * slots, or throws.
int64_t all_slots(const CacheShape& shape, int64_t slots) {
  int64_t all = 0;
  if (__builtin_mul_overflow(shape.sequences, shape.kv_heads, &all) ||
      __builtin_mul_overflow(all, slots, &all)) {
    throw std::bad_alloc();
  }
  return all;
}

}  // namespace

TokenMemory TokenMemory::of(const CacheShape& shape, int64_t slots) {
  TokenMemory memory;
  memory.keys = zeros(slots, shape.width, shape.storage);
  memory.values = zeros(slots, shape.value_width, shape.storage);
  if (memory.values == nullptr) {
    memory.keys = nullptr;
  }
  return memory;
}

void SlotCache::write(const CacheStep& step, int64_t before) {
  const TokenMemory& to = memory(step.sequence);
  for (int64_t head = 0; head < shape().kv_heads; ++head) {
    for (int64_t j = 0; j < step.tokens; ++j) {
      copy_row(step.k, head, j, shape().width, shape().storage, to.keys.get(),
               key_slot(step, before, head, j));
      copy_row(step.v, head, j, shape().value_width, shape().storage,
               to.values.get(), value_slot(step, before, head, j));
    }
  }
}

Rows SlotCache::keys(int64_t sequence, int64_t head, int64_t n,
                     float* room) const {
  return rows_of(shape().storage, memory(sequence).keys.get(),
                 first_slot(sequence, head, n), n, shape().width, room);
}

Rows SlotCache::values(int64_t sequence, int64_t head, int64_t n,
                       float* room) const {
  return rows_of(shape().storage, memory(sequence).values.get(),
                 first_slot(sequence, head, n), n, shape().value_width, room);
}

ContiguousCache::ContiguousCache(const CacheShape& shape, int64_t slots)
    : SlotCache(shape),
      slots_(slots),
      memory_(TokenMemory::of(shape, all_slots(shape, slots))) {
  if (!memory_.present()) {
    throw std::bad_alloc();
  }
}

const char* ContiguousCache::reserve(int64_t, int64_t tokens) {
  return tokens <= shape().capacity
             ? nullptr
             : "the sequence would hold more tokens than the capacity";
}

}  // namespace qkvet::impl
