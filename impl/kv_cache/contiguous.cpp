// SPDX-License-Identifier: Apache-2.0
// kv_cache/contiguous: all memory at once, [sequences, Hkv, capacity, d] and
// the same with dv, in the storage type; a sequence is a length.
//
// Appending copies Tnew rows a head; reset and truncate change a number. Half
// keys are converted to f32 once a step and key/value head, f32 keys are read
// in place.
//
// Contract: that of cache_skeleton.h; the memory is fixed, a step beyond the
// capacity is OUT_OF_MEMORY.
#include "impl/kv_cache/kernel.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel kv_cache_contiguous =
    family_cache(QKVET_FAMILY "/contiguous",
                 "memory for the whole capacity, allocated at once",
                 {"impl/kv_cache/contiguous.cpp", __LINE__},
                 &kCacheTable<ContiguousCache, kCacheOptions | kCacheScores>);

}  // namespace qkvet::impl
