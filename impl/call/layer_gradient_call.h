// SPDX-License-Identifier: Apache-2.0
// Checked, typed access to the arguments of one gradient of a layer
// (backward.h). A call that contradicts itself is refused with the name of the
// tensor, before anything is written.
#ifndef QKVET_IMPL_CALL_LAYER_GRADIENT_CALL_H_
#define QKVET_IMPL_CALL_LAYER_GRADIENT_CALL_H_

#include "impl/call/layer_call.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

struct LayerGradientCall {
  LayerCall layer;  // without y and stages
  Stored d_y, d_x;  // [B, T, D]
  // `matrix` and `bias` are outputs of the shapes of those of the layer; a bias
  // is absent where the layer has none.
  Projection d_w_q, d_w_k, d_w_v, d_w_o;
};

// Fills *call or refuses: *why is then the reason.
qkvet_status read_layer_gradient(const qkvet_kernel* self,
                                 const qkvet_layer_backward_args* args,
                                 LayerGradientCall* call, qkvet_text* why);

using LayerGradientFunction = decltype(qkvet_backward_table::layer_backward);

constexpr qkvet_backward_table layer_gradient_table(
    LayerGradientFunction layer_backward) {
  qkvet_backward_table table = {};
  table.struct_size = sizeof(table);
  table.layer_backward = layer_backward;
  return table;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_LAYER_GRADIENT_CALL_H_
