// SPDX-License-Identifier: Apache-2.0
// The ABI of a cache class: the functions of its table, and the kernel that is
// only a cache.
#ifndef QKVET_IMPL_SKELETONS_CACHE_TABLE_H_
#define QKVET_IMPL_SKELETONS_CACHE_TABLE_H_

#include <cstdint>
#include <exception>

#include "impl/call/declare.h"
#include "impl/skeletons/cache_book.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// The functions that are the same for every class. A qkvet_cache is a CacheBook
// under another name.
void destroy_cache(const qkvet_kernel*, qkvet_cache* cache);
qkvet_status step_cache(const qkvet_kernel*, qkvet_cache* cache,
                        const qkvet_cache_args* args, const qkvet_exec* exec,
                        qkvet_text* why);
qkvet_status length_of_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t sequence, int64_t* tokens,
                             qkvet_text* why);
qkvet_status reset_cache(const qkvet_kernel*, qkvet_cache* cache,
                         int64_t sequence, qkvet_text* why);
qkvet_status truncate_cache(const qkvet_kernel*, qkvet_cache* cache,
                            int64_t sequence, int64_t tokens, qkvet_text* why);
qkvet_status evict_cache(const qkvet_kernel*, qkvet_cache* cache,
                         int64_t sequence, int64_t first, int64_t tokens,
                         qkvet_text* why);
qkvet_status fork_cache(const qkvet_kernel*, qkvet_cache* cache, int64_t from,
                        int64_t to, qkvet_text* why);
qkvet_status reorder_cache(const qkvet_kernel*, qkvet_cache* cache,
                           const int64_t* parents, qkvet_text* why);
qkvet_status read_back_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t sequence, const qkvet_tensor* k,
                             const qkvet_tensor* v, qkvet_text* why);
qkvet_status memory_of_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t* bytes, qkvet_text* why);

// C is a class of caches, or has a function make() that chooses one.
template <class C>
qkvet_status create_cache(const qkvet_kernel* self, qkvet_context*,
                          const qkvet_cache_config* config,
                          const qkvet_exec* exec, qkvet_cache** cache,
                          qkvet_text* why) {
  CacheShape shape;
  QKVET_TRY(read_cache_config(self, config, exec, &shape, why));
  try {
    CacheBook* made = nullptr;
    if constexpr (requires { C::make(shape); }) {
      made = C::make(shape);
    } else {
      made = new C(shape);
    }
    *cache = reinterpret_cast<qkvet_cache*>(made);
  } catch (const std::exception&) {  // bad_alloc, or more than a vector holds
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the cache");
  }
  return QKVET_OK;
}

// Options that the skeleton implements for every storage.
inline constexpr uint64_t kCacheOptions =
    QKVET_CACHE_ROPE | QKVET_CACHE_ROPE_PART | QKVET_CACHE_WINDOW;

// Options that it implements for arithmetic with options of a row.
inline constexpr uint64_t kCacheScores = QKVET_CACHE_ALIBI | QKVET_CACHE_SINK |
                                         QKVET_CACHE_SOFTCAP |
                                         QKVET_CACHE_MASK | QKVET_CACHE_BIAS;

template <class C, uint64_t kOptions = kCacheOptions>
inline constexpr qkvet_cache_table kCacheTable = {
    .struct_size = sizeof(qkvet_cache_table),
    .options = kOptions,
    .create = create_cache<C>,
    .destroy = destroy_cache,
    .step = step_cache,
    .length = length_of_cache,
    .reset = reset_cache,
    .truncate = truncate_cache,
    .fork = fork_cache,
    .reorder = reorder_cache,
    .read_back = read_back_cache,
    .memory = memory_of_cache,
    .evict = evict_cache,
};

// A step is at the end of its sequence: causal from the bottom right, with Tq
// != Tk.
inline constexpr qkvet_capabilities kCacheCapabilities = capabilities_with(
    kCommonOptions & ~QKVET_OPTION_CAUSAL_TOP_LEFT, {kF32, kF16, kBf16});
inline constexpr qkvet_precision kCachePrecision = sequential_f32();

// A kernel that is only a cache.
constexpr qkvet_kernel cache_kernel(
    const char* name, const char* description, Place place,
    const qkvet_cache_table* table,
    const qkvet_precision* precision = &kCachePrecision) {
  qkvet_kernel kernel = plain_kernel(name, description, place, precision,
                                     nullptr, &kCacheCapabilities);
  kernel.supports = nullptr;
  kernel.dialect = &kOptionsDialect;
  kernel.cache = table;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_CACHE_TABLE_H_
