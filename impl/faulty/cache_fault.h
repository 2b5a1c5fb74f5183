// SPDX-License-Identifier: Apache-2.0
// The kernels of faults in caches.
#ifndef QKVET_IMPL_FAULTY_CACHE_FAULT_H_
#define QKVET_IMPL_FAULTY_CACHE_FAULT_H_

#include <cstdint>

#include "impl/faulty/fault.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/cache_table.h"

namespace qkvet::impl {

// With a table or a precision of its own.
template <const qkvet_cache_table* kTable,
          const qkvet_precision* kPrecision = &kCachePrecision>
constexpr qkvet_kernel kTableFault = cache_kernel("", "", {}, kTable,
                                                  kPrecision);

// C derives from a cache and replaces the subject of its fault. It has a window
// only if the fault is about windows.
template <class C, uint64_t kOptions = QKVET_CACHE_ROPE>
constexpr qkvet_kernel kCacheFault = kTableFault<&kCacheTable<C, kOptions>>;

// C derives from QuantisedCache; storage as given takes another class.
template <class C>
struct Coded {
  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) return new ContiguousCache(shape);
    return new C(shape);
  }
};
template <class C, uint64_t kOptions = QKVET_CACHE_INT8_PER_TOKEN>
constexpr qkvet_kernel kCodedFault = kCacheFault<Coded<C>, kOptions>;

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_CACHE_FAULT_H_
