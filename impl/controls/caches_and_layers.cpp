// SPDX-License-Identifier: Apache-2.0
// Controls that hold their keys themselves, or make them.
#include "impl/abi/half.h"
#include "impl/controls/control.h"
#include "impl/frames/cache_memory.h"
#include "impl/frames/cache_table.h"
#include "impl/frames/layer_frame.h"
#include "impl/kv_cache/quantised.h"
#include "impl/kv_cache/turned.h"

namespace qkvet::impl {
namespace {

// A contiguous cache that attends with an online softmax over blocks of 4 keys,
// as kernels over pages do.
constexpr Arithmetic kOnline4 = {.tile = 4};

class OnlineCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    return compute_arithmetic<kOnline4>(call, why);
  }
};

// Codes that are multiplied in half: P is rounded to what v is given as.
constexpr Arithmetic kRoundedTiles = {.tile = 16, .p = P::kStorage};

class HalfCodes : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;
  static Cache* make(const CacheShape& shape) {
    return shape.codes == Codes::kAsGiven ? QuantisedCache::make(shape)
                                          : new HalfCodes(shape);
  }

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    ForwardCall own = call;
    own.storage = shape().storage;
    return compute_arithmetic<kRoundedTiles>(own, why);
  }
};

// What the header leaves open: a sequence that is not there may be reset, which
// changes nothing, and who has a window need not evict.
const Cache* cache_of(const qkvet_cache* cache) {
  return reinterpret_cast<const Cache*>(cache);
}

qkvet_status reset_if_there(const qkvet_kernel* self, qkvet_cache* cache,
                            int64_t sequence, qkvet_text* why) {
  return cache_of(cache)->has(sequence)
             ? reset_cache(self, cache, sequence, why)
             : QKVET_OK;
}

qkvet_status evict_without_window(const qkvet_kernel* self, qkvet_cache* cache,
                                  int64_t sequence, int64_t first,
                                  int64_t tokens, qkvet_text* why) {
  return cache_of(cache)->shape().window > 0
             ? refuse(why, QKVET_UNSUPPORTED, "a window evicts by itself")
             : evict_cache(self, cache, sequence, first, tokens, why);
}

constexpr qkvet_cache_table kLenientTable = [] {
  qkvet_cache_table table = kCacheTable<ContiguousCache>;
  table.reset = reset_if_there;
  table.evict = evict_without_window;
  return table;
}();

// q, k, v and attended are rounded to the storage type of x, as layers do that
// keep every tensor between two kernels in half. With f32 storage it is
// scalar/layer.
struct HalfStages : PlainLayer {
  static float stage(const LayerCall& call, float value) {
    return round_to(call.storage, value);
  }
};

// All zero: the stages have the storage type of x.
constexpr qkvet_layer_table kHalfStagesTable =
    layer_table(LayerFrame<HalfStages>::forward, qkvet_dtype{});

}  // namespace

QKVET_CONTROL(cache_online4) = cache_kernel(
    "controls/cache_online4", "a cache under online softmax, blocks of 4 keys",
    QKVET_PLACE, &kCacheTable<OnlineCache>, &kDeclaredPrecision<kOnline4>);

QKVET_CONTROL(cache_half_codes) = cache_kernel(
    "controls/cache_half_codes", "codes, P rounded to the storage type",
    QKVET_PLACE,
    &kCacheTable<HalfCodes, kCacheOptions | QKVET_CACHE_INT8_PER_TOKEN |
                                QKVET_CACHE_INT8_PER_CHANNEL |
                                QKVET_CACHE_FP8_PER_TOKEN |
                                QKVET_CACHE_FP8_PER_CHANNEL>,
    &kDeclaredPrecision<kRoundedTiles>);

QKVET_CONTROL(cache_lenient) =
    cache_kernel("controls/cache_lenient",
                 "resets what is not there, and does not evict beside a window",
                 QKVET_PLACE, &kLenientTable);

// Contiguous memory of rotated keys (turned.h).
QKVET_CONTROL(cache_turned_keys) = cache_kernel(
    "controls/cache_turned_keys", "keys are stored rotated, in their type",
    QKVET_PLACE, &kTurnedTable<TurnedKeys<ContiguousCache>>, &kTurnedPrecision);

QKVET_CONTROL(layer_half_stages) = layer_kernel(
    "controls/layer_half_stages", "stages rounded to the storage type",
    QKVET_PLACE, &kLayerPrecision, &kHalfStagesTable);

}  // namespace qkvet::impl
