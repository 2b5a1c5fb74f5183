// SPDX-License-Identifier: Apache-2.0
// kv_cache/ring: with a window, only the slots that it still shows (ring.h).
//
// Contract: that of cache_skeleton.h; the memory is fixed, a step beyond the
// capacity is OUT_OF_MEMORY.
#include "impl/kv_cache/ring.h"

#include "impl/kv_cache/kernel.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel kv_cache_ring = family_cache(
    QKVET_FAMILY "/ring", "with a window, a ring of what it still shows",
    {"impl/kv_cache/ring.cpp", __LINE__},
    &kCacheTable<RingCache, kCacheOptions | kCacheScores>);

}  // namespace qkvet::impl
