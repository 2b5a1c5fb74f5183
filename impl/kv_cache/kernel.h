// SPDX-License-Identifier: Apache-2.0
// A kernel of the families that are built from this folder: QKVET_FAMILY is
// their name, and open() checks that the CPU has what they need.
#ifndef QKVET_IMPL_KV_CACHE_KERNEL_H_
#define QKVET_IMPL_KV_CACHE_KERNEL_H_

#include "impl/call/open_on_avx2.h"
#include "impl/skeletons/cache_table.h"

namespace qkvet::impl {

#ifdef QKVET_NEEDS_AVX2
inline constexpr auto kOpenCaches = open_on_avx2;
inline constexpr auto kCloseCaches = close_on_avx2;
#else
inline constexpr decltype(qkvet_kernel::open) kOpenCaches = nullptr;
inline constexpr decltype(qkvet_kernel::close) kCloseCaches = nullptr;
#endif

constexpr qkvet_kernel family_cache(
    const char* name, const char* description, Place place,
    const qkvet_cache_table* table,
    const qkvet_precision* precision = &kCachePrecision) {
  qkvet_kernel kernel =
      cache_kernel(name, description, place, table, precision);
  kernel.open = kOpenCaches;
  kernel.close = kCloseCaches;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_KV_CACHE_KERNEL_H_
