// SPDX-License-Identifier: Apache-2.0
// Families that collect their kernels where these are defined (collected.cpp).
#ifndef QKVET_IMPL_CALL_COLLECTED_H_
#define QKVET_IMPL_CALL_COLLECTED_H_

#include <type_traits>

#include "qkvet/kernel.h"

namespace qkvet::impl {

constexpr qkvet_kernel with(qkvet_kernel kernel) { return kernel; }

// The kernel with other values in some fields: field, value, field, value ...
template <class Value, class... More>
constexpr qkvet_kernel with(qkvet_kernel kernel, Value qkvet_kernel::*field,
                            std::type_identity_t<Value> value, More... more) {
  kernel.*field = value;
  return with(kernel, more...);
}

}  // namespace qkvet::impl

// Puts a kernel into the list of its family. The linker makes the list: it
// stores the pointers of a section one after the other.
#define QKVET_COLLECT(kernel)      \
  [[gnu::section("qkvet_kernels"), \
    gnu::used]] static const qkvet_kernel* collected_##kernel = &kernel

#endif  // QKVET_IMPL_CALL_COLLECTED_H_
