// SPDX-License-Identifier: Apache-2.0
// Tensors of a gradient and the tensors that they belong to: both have the same
// shape.
#ifndef QKVET_IMPL_ABI_GRADIENT_TENSOR_H_
#define QKVET_IMPL_ABI_GRADIENT_TENSOR_H_

#include "impl/abi/tensor_view.h"

namespace qkvet::impl {

struct GradientTensor {
  const char* name;
  const qkvet_tensor* tensor;
  const qkvet_tensor* like;  // has the same shape
  bool may_be_f32;           // with any type of q
  Stored* to;
};

// Refuses with a reason that begins with the name of the tensor.
qkvet_status refuse_tensor(qkvet_text* why, qkvet_status status,
                           const char* name, const char* wrong);

// Fills *row.to, or refuses with a reason; `of_q` is the type of all tensors of
// the call except those that may be f32.
qkvet_status read_gradient(const GradientTensor& row, Storage of_q,
                           qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_ABI_GRADIENT_TENSOR_H_
