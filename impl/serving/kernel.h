// SPDX-License-Identifier: Apache-2.0
// A kernel of the families that are built from this folder: QKVET_FAMILY is
// their name, and open() checks that the CPU has what they need.
#ifndef QKVET_IMPL_SERVING_KERNEL_H_
#define QKVET_IMPL_SERVING_KERNEL_H_

#include "impl/call/open_on_avx2.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {

constexpr qkvet_kernel on_this_cpu(qkvet_kernel kernel) {
#ifdef QKVET_NEEDS_AVX2
  kernel.open = open_on_avx2;
  kernel.close = close_on_avx2;
#endif
  return kernel;
}

constexpr qkvet_kernel family_serving(const char* name, const char* description,
                                      Place place,
                                      const qkvet_precision* precision,
                                      ForwardFunction forward,
                                      const qkvet_capabilities* capabilities) {
  return on_this_cpu(serving_kernel(name, description, place, precision,
                                    forward, capabilities));
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SERVING_KERNEL_H_
