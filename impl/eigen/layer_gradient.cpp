// SPDX-License-Identifier: Apache-2.0
#include "impl/eigen/layer_gradient.h"

#include <new>
#include <utility>
#include <vector>

#include "impl/call/layer_gradient_call.h"
#include "impl/eigen/attend.h"
#include "impl/eigen/gradient.h"
#include "impl/eigen/layer_matrices.h"
#include "impl/skeletons/backward_kernel.h"

namespace qkvet::impl {
namespace {

Stored stored_view(Matrix* rows, const LayerCall& call, int64_t heads,
                   int64_t width) {
  const View<float> view = split(rows->data(), call, heads, width);
  return {view.data,
          Storage::kF32,
          {view.step[0], view.step[1], view.step[2], view.step[3]}};
}

// to.matrix = from^T grad, to.bias = the sum of the rows of grad.
void write_parameters(const Matrix& from, const Matrix& grad,
                      const Projection& to) {
  const Matrix matrix = from.transpose() * grad;
  for (int64_t i = 0; i < to.rows; ++i) {
    for (int64_t column = 0; column < to.columns; ++column) {
      to.matrix.set(i, column, 0, 0, matrix(i, column));
    }
  }
  for (int64_t column = 0; to.bias.present() && column < to.columns; ++column) {
    to.bias.set(column, 0, 0, 0, grad.col(column).sum());
  }
}

// The gradients of the projections' results.
struct HeadGradients {
  Matrix q, k, v, attended;
};

// dQ, dK and dV from dA, of rotated q and k; writes A and lse on the way.
qkvet_status through_attention(const LayerCall& call, LayerMatrices* stages,
                               HeadGradients* grad, qkvet_text* why) {
  std::vector<float> lse(
      static_cast<size_t>(call.batch * call.heads * call.tokens));
  BackwardCall b;
  b.forward = stages->heads(call);
  b.forward.lse = {lse.data(), {call.heads * call.tokens, call.tokens, 1}};
  QKVET_TRY(attend_with_eigen(b.forward, why));
  const int64_t d = call.width, dv = call.value_width;
  b.q = stored_view(&stages->q, call, call.heads, d);
  b.k = stored_view(&stages->k, call, call.kv_heads, d);
  b.v = stored_view(&stages->v, call, call.kv_heads, dv);
  b.o = stored_view(&stages->attended, call, call.heads, dv);
  b.d_o = stored_view(&grad->attended, call, call.heads, dv);
  b.d_q = stored_view(&grad->q, call, call.heads, d);
  b.d_k = stored_view(&grad->k, call, call.kv_heads, d);
  b.d_v = stored_view(&grad->v, call, call.kv_heads, dv);
  b.all_keys = b.row_room = call.tokens;
  return BackwardKernel<PlainBackward, gradient_with_eigen>::compute(
      b, 1, nullptr, why);
}

qkvet_status compute(const LayerGradientCall& g, qkvet_text* why) {
  const LayerCall& call = g.layer;
  LayerMatrices stages(call);
  const Matrix d_y = rows_of(call, g.d_y);
  const int64_t rows = d_y.rows();
  HeadGradients grad = {
      Matrix(rows, call.w_q.columns), Matrix(rows, call.w_k.columns),
      Matrix(rows, call.w_v.columns), d_y * matrix_of(call.w_o).transpose()};
  QKVET_TRY(through_attention(call, &stages, &grad, why));
  grad.q = turned<TurnBack>(call, call.heads, std::move(grad.q));
  grad.k = turned<TurnBack>(call, call.kv_heads, std::move(grad.k));
  write_parameters(stages.attended, d_y, g.d_w_o);
  write_parameters(stages.x, grad.q, g.d_w_q);
  write_parameters(stages.x, grad.k, g.d_w_k);
  write_parameters(stages.x, grad.v, g.d_w_v);
  Matrix d_x = grad.q * matrix_of(call.w_q).transpose();
  d_x.noalias() += grad.k * matrix_of(call.w_k).transpose();
  d_x.noalias() += grad.v * matrix_of(call.w_v).transpose();
  write_rows(call, d_x, g.d_x);
  return QKVET_OK;
}

}  // namespace

qkvet_status layer_gradient_with_eigen(const qkvet_kernel* self, qkvet_context*,
                                       const qkvet_layer_backward_args* args,
                                       const qkvet_exec* exec,
                                       qkvet_text* why) {
  LayerGradientCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_layer_gradient(self, args, &call, why));
  try {
    return compute(call, why);
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the stages");
  }
}

}  // namespace qkvet::impl
