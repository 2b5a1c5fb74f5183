// SPDX-License-Identifier: Apache-2.0
// The kernels of faults in caches.
#ifndef QKVET_IMPL_FAULTY_CACHE_FAULT_H_
#define QKVET_IMPL_FAULTY_CACHE_FAULT_H_

#include <cstdint>

#include "impl/faulty/fault.h"
#include "impl/skeletons/cache_table.h"

namespace qkvet::impl {

// With a table or a precision of its own.
template <const qkvet_cache_table* kTable,
          const qkvet_precision* kPrecision = &kCachePrecision>
constexpr qkvet_kernel table_fault(const char* name, const char* description,
                                   Place place) {
  return cache_kernel(name, description, place, kTable, kPrecision);
}

// C derives from a cache and replaces what its fault is about. It has
// no window but where the fault lies there.
template <class C, uint64_t kOptions = QKVET_CACHE_ROPE>
constexpr qkvet_kernel cache_fault(const char* name, const char* description,
                                   Place place) {
  return table_fault<&kCacheTable<C, kOptions>>(name, description, place);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_CACHE_FAULT_H_
