// SPDX-License-Identifier: Apache-2.0
// controls/cache_turned_keys: keys are rotated once, when they come, and stored
// rotated in the storage type, as serving systems do.
#include <vector>

#include "impl/cache_memory.h"
#include "impl/cache_table.h"

namespace qkvet::impl {
namespace {

class TurnedCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void write(const CacheStep& step, int64_t before) override {
    if (!step.rope.present()) {
      ContiguousCache::write(step, before);
      return;
    }
    const int64_t d = shape().width;
    std::vector<float> turned(
        static_cast<size_t>(shape().kv_heads * step.tokens * d));
    float* row = turned.data();
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t j = 0; j < step.tokens; ++j, row += d) {
        for (int64_t c = 0; c < d; ++c) {
          row[c] = step.k.get(0, head, j, c);
        }
        turn_row(step.rope, before + j, d, row);
      }
    }
    CacheStep stored = step;
    stored.k = {turned.data(), Storage::kF32, {0, step.tokens * d, d, 1}};
    ContiguousCache::write(stored, before);
  }
  bool stores_turned() const override { return true; }
};

// Rotated keys in half storage are what a preset allows that rounds to it.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.preset = QKVET_PRECISION_FLASH_HALF;
  return p;
}();

// Keys cannot be turned back exactly: they are not read back.
constexpr qkvet_cache_table kTable = [] {
  qkvet_cache_table table = kCacheTable<TurnedCache>;
  table.read_back = nullptr;
  return table;
}();

}  // namespace

extern constinit const qkvet_kernel controls_cache_turned_keys = cache_kernel(
    "controls/cache_turned_keys", "keys are stored rotated, in their type",
    {"impl/controls/cache_turned_keys.cpp", __LINE__}, &kTable, &kPrecision);

}  // namespace qkvet::impl
