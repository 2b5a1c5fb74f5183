// SPDX-License-Identifier: Apache-2.0
// avx2/layer: self-attention from X to Y by one matrix product a projection
// (matrix_product.h) and the attention of avx2/flash; and its gradient, by the
// same products and gradient.h:
//
//   dW_O = A^T dY,  dA = dY W_O^T
//   dQ, dK, dV of attention; dQ and dK turned back
//   dW = X^T dQ, ...,  dX = dQ W_Q^T + dK W_K^T + dV W_V^T
//
// Heads are split and merged by strides alone. The inputs are copied to f32
// rows and every output is rounded once; the stages are f32. A gradient
// computes the stages once more and stores no weights.
//
// Cost: 2 B T D (H d + Hkv (d + dv) + H dv) flops of projections, and attention
// as in flash.cpp; memory: all tensors once more, in f32.
//
// Contract: any strides; x, matrices, biases and y f32, f16 or bf16 throughout;
// a contradiction is INVALID_ARGUMENT before anything is written
// (layer_call.h). Baseline code.
#include <new>
#include <utility>
#include <vector>

#include "impl/avx2/flash.h"
#include "impl/avx2/flash_kernel.h"
#include "impl/avx2/gradient.h"
#include "impl/avx2/layer_stages.h"
#include "impl/call/layer_call.h"
#include "impl/call/layer_gradient_call.h"
#include "impl/call/open_on_avx2.h"
#include "impl/call/tensor_view.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/layer_returned.h"

namespace qkvet::impl {
namespace {

// Memory of flash for one call.
struct OwnContext {
  OwnContext() = default;
  ~OwnContext() { free_flash(&context); }
  OwnContext(const OwnContext&) = delete;
  OwnContext& operator=(const OwnContext&) = delete;
  qkvet_context context;
};

qkvet_status compute(const LayerCall& call, qkvet_text* why) {
  OwnContext own;
  LayerStages stages(call);
  const ForwardCall heads = stages.heads(call);
  QKVET_TRY(attend_with_flash(heads, &own.context, why));
  write_rows(call, project(stages.attended, call.w_o), call.y);
  if (call.weights.present()) {
    write_weights(heads, call.weights, share_of);
  }
  return_stages(call, heads, read_only(heads.o));
  return QKVET_OK;
}

// to.matrix = from^T grad, to.bias = the sum of the rows of grad.
void write_parameters(const LayerRows& from, const LayerRows& grad,
                      const Projection& to) {
  const LayerRows matrix = product(transposed(from), grad);
  for (int64_t i = 0; i < to.rows; ++i) {
    for (int64_t column = 0; column < to.columns; ++column) {
      to.matrix.set(i, column, 0, 0, matrix.at(i, column));
    }
  }
  for (int64_t column = 0; to.bias.present() && column < to.columns; ++column) {
    float sum = 0;
    for (int64_t n = 0; n < grad.rows; ++n) {
      sum += grad.at(n, column);
    }
    to.bias.set(column, 0, 0, 0, sum);
  }
}

// The gradients of the projections' results.
struct StageGradients {
  LayerRows q, k, v, attended;
};

// dQ, dK and dV from dA, of rotated q and k; writes A and lse on the way.
qkvet_status through_attention(const LayerCall& call, LayerStages* stages,
                               StageGradients* grad, qkvet_text* why) {
  OwnContext own;
  std::vector<float> lse(
      static_cast<size_t>(call.batch * call.heads * call.tokens));
  BackwardCall b;
  b.forward = stages->heads(call);
  b.forward.lse = {lse.data(), {call.heads * call.tokens, call.tokens, 1}};
  QKVET_TRY(attend_with_flash(b.forward, &own.context, why));
  const int64_t d = call.width, dv = call.value_width;
  b.q = stages->q.stored_heads(call, d);
  b.k = stages->k.stored_heads(call, d);
  b.v = stages->v.stored_heads(call, dv);
  b.o = stages->attended.stored_heads(call, dv);
  b.d_o = grad->attended.stored_heads(call, dv);
  b.d_q = grad->q.stored_heads(call, d);
  b.d_k = grad->k.stored_heads(call, d);
  b.d_v = grad->v.stored_heads(call, dv);
  b.all_keys = b.row_room = call.tokens;
  return BackwardKernel<PlainBackward, gradient_on_avx2>::compute(
      b, 1, &own.context, why);
}

qkvet_status differentiate(const LayerGradientCall& g, qkvet_text* why) {
  const LayerCall& call = g.layer;
  LayerStages stages(call);
  const LayerRows d_y = rows_of(call, g.d_y);
  StageGradients grad = {LayerRows(d_y.rows, call.w_q.columns),
                         LayerRows(d_y.rows, call.w_k.columns),
                         LayerRows(d_y.rows, call.w_v.columns),
                         product(d_y, transposed(matrix_of(call.w_o)))};
  QKVET_TRY(through_attention(call, &stages, &grad, why));
  grad.q = turned<TurnBack>(call, call.heads, std::move(grad.q));
  grad.k = turned<TurnBack>(call, call.kv_heads, std::move(grad.k));
  write_parameters(stages.attended, d_y, g.d_w_o);
  write_parameters(stages.x, grad.q, g.d_w_q);
  write_parameters(stages.x, grad.k, g.d_w_k);
  write_parameters(stages.x, grad.v, g.d_w_v);
  LayerRows d_x = product(grad.q, transposed(matrix_of(call.w_q)));
  add_product(grad.k, transposed(matrix_of(call.w_k)), &d_x);
  add_product(grad.v, transposed(matrix_of(call.w_v)), &d_x);
  write_rows(call, d_x, g.d_x);
  return QKVET_OK;
}

template <class Call, class Compute>
qkvet_status within_memory(const Call& call, const Compute& compute_call,
                           qkvet_text* why) {
  try {
    return compute_call(call, why);
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the stages");
  }
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_layer_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  qkvet_layer_args known = {};
  LayerCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_struct(args, &known, why));
  QKVET_TRY(read_layer(self, known, &call, why));
  return within_memory(call, compute, why);
}

qkvet_status backward(const qkvet_kernel* self, qkvet_context*,
                      const qkvet_layer_backward_args* args,
                      const qkvet_exec* exec, qkvet_text* why) {
  LayerGradientCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_layer_gradient(self, args, &call, why));
  return within_memory(call, differentiate, why);
}

constexpr qkvet_layer_table kTable = layer_table(forward, kF32);
constexpr qkvet_backward_table kBackward = layer_gradient_table(backward);

constexpr qkvet_capabilities kTiles =
    with_paths(kLayerCapabilities, {{QKVET_AXIS_TK, kTileKeys},
                                    {QKVET_AXIS_TK, kPanel},
                                    {QKVET_AXIS_TQ, kMicroRows},
                                    {QKVET_AXIS_TQ, kBlockRows}});

constexpr qkvet_kernel make() {
  qkvet_kernel kernel = layer_kernel(
      "avx2/layer", "matrix products on AVX2 and FMA around avx2/flash",
      {"impl/avx2/layer.cpp", __LINE__}, &kFlashPrecision, &kTable);
  kernel.capabilities = &kTiles;
  kernel.backward = &kBackward;
  kernel.open = open_on_avx2;
  kernel.close = close_on_avx2;
  return kernel;
}

}  // namespace

extern constinit const qkvet_kernel avx2_layer = make();

}  // namespace qkvet::impl
