// SPDX-License-Identifier: Apache-2.0
// The kernel of a fault in the gradient of a layer: the layer is right, and of
// the gradient one seam of layer_gradient.h is replaced.
//
// Contract: as that of layer_gradient.h; stays inside its tensors but where the
// fault is that it does not.
#ifndef QKVET_IMPL_FAULTY_LAYER_BACKWARD_FAULT_H_
#define QKVET_IMPL_FAULTY_LAYER_BACKWARD_FAULT_H_

#include "impl/faulty/fault.h"
#include "impl/layer_gradient.h"

namespace qkvet::impl {

// `fault` must be a constant of static storage.
template <class Seams>
constexpr qkvet_kernel layer_backward_fault(const char* name,
                                            const qkvet_fault* fault,
                                            Place place) {
  return with_backward(faulty_layer<PlainLayer>(name, fault, place),
                       &kLayerGradientTable<Seams>);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_LAYER_BACKWARD_FAULT_H_
