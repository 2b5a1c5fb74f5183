// SPDX-License-Identifier: Apache-2.0
// The gradient of a layer with one matrix product a projection and direction.
//
//   dW_O = A^T dY,  dA = dY W_O^T
//   dQ, dK, dV by gradient.h, heads by strides; dQ and dK turned back
//   dW = X^T dQ, ...,  dX = dQ W_Q^T + dK W_K^T + dV W_V^T
//
// The stages are computed once more, in f32; no weights are stored. Memory: all
// tensors twice, in f32.
//
// Contract: as that of layer.cpp.
#ifndef QKVET_IMPL_EIGEN_LAYER_GRADIENT_H_
#define QKVET_IMPL_EIGEN_LAYER_GRADIENT_H_

#include "qkvet/kernel.h"

namespace qkvet::impl {

qkvet_status layer_gradient_with_eigen(const qkvet_kernel* self, qkvet_context*,
                                       const qkvet_layer_backward_args* args,
                                       const qkvet_exec* exec, qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_EIGEN_LAYER_GRADIENT_H_
