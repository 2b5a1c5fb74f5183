// SPDX-License-Identifier: Apache-2.0
// kv_cache/prefix: pages of 4 tokens that are shared by content and prefix
// (prefix.h).
//
// Contract: that of kv_cache/paged.
#include "impl/kv_cache/prefix.h"

#include "impl/kv_cache/kernel.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel kv_cache_prefix = family_cache(
    QKVET_FAMILY "/prefix", "pages that prompts with one beginning share",
    {"impl/kv_cache/prefix.cpp", __LINE__},
    &kCacheTable<PrefixCache, kCacheOptions | kCacheScores>);

}  // namespace qkvet::impl
