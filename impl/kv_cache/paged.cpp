// SPDX-License-Identifier: Apache-2.0
// kv_cache/paged: just pages of 4 tokens (pages.h).
//
// Contract: that of cache_skeleton.h; memory grows with the held tokens, a step
// beyond the capacity is OUT_OF_MEMORY.
#include "impl/kv_cache/kernel.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel kv_cache_paged =
    family_cache(QKVET_FAMILY "/paged",
                 "pages of 4 tokens, shared by forks, copied on write",
                 {"impl/kv_cache/paged.cpp", __LINE__},
                 &kCacheTable<PagedCache, kCacheOptions | kCacheScores>);

}  // namespace qkvet::impl
