// SPDX-License-Identifier: Apache-2.0
// kv_cache/quantised: a byte a number and scales (quantised.h).
//
// Without codes in the configuration it is kv_cache/contiguous. Contract: that
// of cache_skeleton.h; the memory is fixed, a step beyond the capacity is
// OUT_OF_MEMORY.
#include "impl/kv_cache/quantised.h"

#include "impl/kv_cache/kernel.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel kv_cache_quantised = family_cache(
    QKVET_FAMILY "/quantised", "int8 or fp8, with a scale a token or a channel",
    {"impl/kv_cache/quantised.cpp", __LINE__},
    &kCacheTable<QuantisedCache,
                 kCacheOptions | kCacheScores | QKVET_CACHE_INT8_PER_TOKEN |
                     QKVET_CACHE_INT8_PER_CHANNEL | QKVET_CACHE_FP8_PER_TOKEN |
                     QKVET_CACHE_FP8_PER_CHANNEL>);

}  // namespace qkvet::impl
