// SPDX-License-Identifier: Apache-2.0
// The kernel of a fault in a gradient: forward is right, with every option that
// the fault lies in, and of the gradient one hook of backward_skeleton.h is
// replaced.
//
// Contract: as that of backward_kernel.h; stays inside its tensors but where
// the fault is that it does not.
#ifndef QKVET_IMPL_FAULTY_BACKWARD_FAULT_H_
#define QKVET_IMPL_FAULTY_BACKWARD_FAULT_H_

#include <cstdint>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/backward_kernel.h"

namespace qkvet::impl {

template <class Hooks, uint64_t kOptions = 0,
          BackwardArithmetic kArithmetic = BackwardRows<Hooks>::piece>
constexpr qkvet_kernel backward_fault(const char* name, const char* description,
                                      Place place) {
  return with_backward(
      option_fault<OptionHooks, kOptions>(name, description, place),
      &kBackwardTable<Hooks, kArithmetic>);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_BACKWARD_FAULT_H_
