// SPDX-License-Identifier: Apache-2.0
#include "impl/skeletons/cache_memory.h"

#include <cstddef>
#include <cstring>
#include <new>

namespace qkvet::impl {
namespace {

// Zeroed only so that no fault reads memory that was never written.
Memory zeros(int64_t rows, int64_t columns, Storage type) {
  int64_t bytes = 0;
  return __builtin_mul_overflow(rows, columns, &bytes) ||
                 __builtin_mul_overflow(bytes, bytes_of(type), &bytes)
             ? nullptr
             : Memory(std::calloc(static_cast<size_t>(bytes), 1));
}

void store_row(const Stored& from, int64_t head, int64_t j, int64_t width,
               Storage type, void* to, int64_t slot) {
  for (int64_t c = 0; c < width; ++c) {
    store(type, to, slot * width + c, from.get(0, head, j, c));
  }
}

void clear_rows(const Memory& rows, int64_t first, int64_t n,
                int64_t row_bytes) {
  std::memset(static_cast<char*>(rows.get()) + first * row_bytes, 0,
              static_cast<size_t>(n * row_bytes));
}

void copy_rows(const Memory& from, int64_t from_row, const Memory& to,
               int64_t to_row, int64_t n, int64_t row_bytes) {
  std::memmove(static_cast<char*>(to.get()) + to_row * row_bytes,
               static_cast<const char*>(from.get()) + from_row * row_bytes,
               static_cast<size_t>(n * row_bytes));
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

void copy_slots(const CacheShape& shape, const TokenMemory& from,
                int64_t from_slot, const TokenMemory& to, int64_t to_slot,
                int64_t n) {
  if (n > 0) {
    const int64_t element = bytes_of(shape.storage);
    copy_rows(from.keys, from_slot, to.keys, to_slot, n, shape.width * element);
    copy_rows(from.values, from_slot, to.values, to_slot, n,
              shape.value_width * element);
  }
}

void clear_slots(const CacheShape& shape, const TokenMemory& memory,
                 int64_t first, int64_t n) {
  if (n > 0) {
    const int64_t element = bytes_of(shape.storage);
    clear_rows(memory.keys, first, n, shape.width * element);
    clear_rows(memory.values, first, n, shape.value_width * element);
  }
}

void store_token(const CacheShape& shape, const CacheStep& step, int64_t head,
                 int64_t j, const TokenMemory& to, int64_t key_slot,
                 int64_t value_slot) {
  store_row(step.k, head, j, shape.width, shape.storage, to.keys.get(),
            key_slot);
  store_row(step.v, head, j, shape.value_width, shape.storage, to.values.get(),
            value_slot);
}

Rows rows_of(Storage type, const Memory& memory, int64_t first, int64_t n,
             int64_t width, float* room) {
  if (type == Storage::kF32) {
    return {static_cast<const float*>(memory.get()) + first * width, width, 1};
  }
  load_rows(type, memory, first, n, width, room);
  return {room, width, 1};
}

void load_rows(Storage type, const Memory& memory, int64_t first, int64_t n,
               int64_t width, float* to) {
  for (int64_t index = 0; index < n * width; ++index) {
    to[index] = load(type, memory.get(), first * width + index);
  }
}

int64_t all_slots(const CacheShape& shape, int64_t slots) {
  int64_t all = 0;
  if (__builtin_mul_overflow(shape.sequences, shape.kv_heads, &all) ||
      __builtin_mul_overflow(all, slots, &all)) {
    throw std::bad_alloc();
  }
  return all;
}

Regions::Regions(void* memory, int64_t bytes, const int64_t* parents,
                 int64_t sequences)
    : memory_(static_cast<char*>(memory)), bytes_(static_cast<size_t>(bytes)) {
  for (int64_t s = 0; s < sequences; ++s) {
    if (parents[s] != s) {
      changed_.push_back(s);
    }
  }
  was_.resize(changed_.size() * bytes_);
  for (size_t n = 0; n < changed_.size(); ++n) {
    const auto parent = static_cast<size_t>(parents[changed_[n]]);
    std::memcpy(was_.data() + n * bytes_, memory_ + parent * bytes_, bytes_);
  }
}

void Regions::write() const {
  for (size_t n = 0; n < changed_.size(); ++n) {
    std::memcpy(memory_ + static_cast<size_t>(changed_[n]) * bytes_,
                was_.data() + n * bytes_, bytes_);
  }
}

void copy_sequences(const CacheShape& shape, const TokenMemory& memory,
                    int64_t slots, const int64_t* parents) {
  const int64_t element = bytes_of(shape.storage);
  const Regions keys(memory.keys.get(), slots * shape.width * element, parents,
                     shape.sequences);
  const Regions values(memory.values.get(), slots * shape.value_width * element,
                       parents, shape.sequences);
  keys.write();
  values.write();
}

void SlotCache::write(const CacheStep& step, int64_t before) {
  for (int64_t head = 0; head < shape().kv_heads; ++head) {
    for (int64_t j = 0; j < step.tokens; ++j) {
      store_token(shape(), step, head, j, memory(step.sequence),
                  key_slot(step, before, head, j),
                  value_slot(step, before, head, j));
    }
  }
}

void SlotCache::remove(int64_t sequence, int64_t first, int64_t tokens) {
  const int64_t n = held(sequence);
  const TokenMemory& rows = memory(sequence);
  for (int64_t head = 0; head < shape().kv_heads; ++head) {
    const int64_t to = first_slot(sequence, head, n) + first;
    copy_slots(shape(), rows, to + tokens, rows, to, n - first - tokens);
  }
}

Rows SlotCache::keys(const Reading& reading, float* room) const {
  return rows_of(shape().storage, memory(reading.sequence).keys,
                 first_slot(reading.sequence, reading.head, reading.held) +
                     reading.run.begin,
                 reading.run.count(), shape().width, room);
}

Rows SlotCache::values(const Reading& reading, float* room) const {
  return rows_of(shape().storage, memory(reading.sequence).values,
                 first_slot(reading.sequence, reading.head, reading.held) +
                     reading.run.begin,
                 reading.run.count(), shape().value_width, room);
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
  return tokens <= shape().capacity ? nullptr : kBeyondCapacity;
}

void ContiguousCache::rearrange(const int64_t* parents) {
  copy_sequences(shape(), memory_, shape().kv_heads * slots_, parents);
}

}  // namespace qkvet::impl
