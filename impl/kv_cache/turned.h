// SPDX-License-Identifier: Apache-2.0
// Keys that are rotated once, when they arrive, and stored rotated in the
// storage type, as in serving systems. They cannot be turned back exactly, so
// these caches do not offer read_back().
#ifndef QKVET_IMPL_KV_CACHE_TURNED_H_
#define QKVET_IMPL_KV_CACHE_TURNED_H_

#include <cstdint>
#include <vector>

#include "impl/skeletons/cache_table.h"

namespace qkvet::impl {

// A preset that rounds to half storage allows rotated keys in it.
inline constexpr qkvet_precision kTurnedPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.preset = QKVET_PRECISION_FLASH_HALF;
  return p;
}();

// Base is a cache with a write() that takes keys from the step.
template <class Base>
class TurnedKeys : public Base {
 public:
  using Base::Base;

 protected:
  void write(const CacheStep& step, int64_t before) override {
    if (!step.rope.present()) {
      Base::write(step, before);
      return;
    }
    const int64_t d = this->shape().width;
    std::vector<float> turned(
        static_cast<size_t>(this->shape().kv_heads * step.tokens * d));
    float* row = turned.data();
    for (int64_t head = 0; head < this->shape().kv_heads; ++head) {
      for (int64_t j = 0; j < step.tokens; ++j, row += d) {
        for (int64_t c = 0; c < d; ++c) {
          row[c] = step.k.get(0, head, j, c);
        }
        turn_row(step.rope, this->gaps(step.sequence).position(before + j), d,
                 row);
      }
    }
    CacheStep stored = step;
    stored.k = {turned.data(), Storage::kF32, {0, step.tokens * d, d, 1}};
    Base::write(stored, before);
  }
  bool stores_turned() const override { return true; }
};

template <class C, uint64_t kOptions = kCacheOptions>
inline constexpr qkvet_cache_table kTurnedTable = [] {
  qkvet_cache_table table = kCacheTable<C, kOptions>;
  table.read_back = nullptr;
  return table;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_KV_CACHE_TURNED_H_
