// SPDX-License-Identifier: Apache-2.0
// How a kernel tells its fault, and the kernels of faults in caches and layers.
// Those of attention itself are made in seams.h.
#ifndef QKVET_IMPL_FAULTY_FAULT_H_
#define QKVET_IMPL_FAULTY_FAULT_H_

#include <cstring>

#include "impl/cache_table.h"
#include "impl/declare.h"
#include "impl/layer_frame.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

inline const void* fault_extension(const qkvet_kernel* self, const char* id) {
  return std::strcmp(id, QKVET_EXTENSION_FAULT) == 0 ? self->user : nullptr;
}

// `fault` must be a constant of static storage.
constexpr qkvet_kernel with_fault(qkvet_kernel kernel,
                                  const qkvet_fault* fault) {
  kernel.user = const_cast<qkvet_fault*>(fault);  // the host never writes it
  kernel.get_extension = fault_extension;
  return kernel;
}

// With a table or a precision of its own.
constexpr qkvet_kernel faulty_cache(
    const char* name, const qkvet_fault* fault, Place place,
    const qkvet_cache_table* table,
    const qkvet_precision* precision = &kCachePrecision) {
  return with_fault(
      cache_kernel(name, fault->mechanism, place, table, precision), fault);
}

// C derives from a cache and replaces what its fault is about. It has
// no window but where the fault lies there.
template <class C, uint64_t kOptions = QKVET_CACHE_ROPE>
constexpr qkvet_kernel faulty_cache(const char* name, const qkvet_fault* fault,
                                    Place place) {
  return faulty_cache(name, fault, place, &kCacheTable<C, kOptions>);
}

// Seams derives from PlainLayer and replaces one seam.
template <class Seams>
constexpr qkvet_kernel faulty_layer(const char* name, const qkvet_fault* fault,
                                    Place place) {
  return with_fault(layer_kernel(name, fault->mechanism, place,
                                 &kLayerPrecision, &kLayerTable<Seams>),
                    fault);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_FAULT_H_
