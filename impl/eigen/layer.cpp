// SPDX-License-Identifier: Apache-2.0
// eigen/layer: self-attention from X to Y with one matrix product a projection.
//
//   Q = X W_Q + 1 b_Q^T, K, V alike     [B T, H d]: heads are column blocks
//   Q, K rotated in place, if asked for
//   A = attention of the blocks         [B T, H dv], merged as it is written
//   Y = A W_O + 1 b_O^T
//
// Heads are split and merged by strides alone: no stage is ever transposed. The
// inputs are copied to f32 matrices and y is rounded once; the stages are f32.
// The gradient is that of layer_gradient.h.
//
// Cost: 2 B T D (H d + Hkv (d + dv) + H dv) flops of projections, and attention
// as in attend.h; memory: all tensors once more, in f32.
//
// Contract: any strides; x, matrices, biases and y f32, f16 or bf16 throughout;
// a contradiction is INVALID_ARGUMENT before anything is written
// (layer_call.h). Baseline instruction set, see README.md.
#include <new>

#include "impl/call/layer_call.h"
#include "impl/call/layer_gradient_call.h"
#include "impl/call/tensor_view.h"
#include "impl/eigen/attend.h"
#include "impl/eigen/layer_gradient.h"
#include "impl/eigen/layer_matrices.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/layer_returned.h"

namespace qkvet::impl {
namespace {

qkvet_status compute_stages(const LayerCall& call, qkvet_text* why) {
  LayerMatrices stages(call);
  const ForwardCall heads = stages.heads(call);
  QKVET_TRY(attend_with_eigen(heads, why));
  write_rows(call, project(stages.attended, call.w_o), call.y);
  if (call.weights.present()) {
    write_weights(heads, call.weights, share_of);
  }
  return_stages(
      call, heads,
      {stages.attended.data(),
       {heads.o.step[0], call.value_width, call.heads * call.value_width, 1}});
  return QKVET_OK;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_layer_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  qkvet_layer_args known = {};
  LayerCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_struct(args, &known, why));
  QKVET_TRY(read_layer(self, known, &call, why));
  try {
    return compute_stages(call, why);
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the stages");
  }
}

constexpr qkvet_layer_table kTable = layer_table(forward, kF32);
constexpr qkvet_backward_table kBackward =
    layer_gradient_table(layer_gradient_with_eigen);

}  // namespace

extern constinit const qkvet_kernel eigen_layer = with_backward(
    layer_kernel("eigen/layer",
                 "one matrix product a projection; heads split by strides",
                 {"impl/eigen/layer.cpp", __LINE__}, &kEigenPrecision, &kTable),
    &kBackward);

}  // namespace qkvet::impl
