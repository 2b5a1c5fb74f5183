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
//
// Cost: 2 B T D (H d + Hkv (d + dv) + H dv) flops of projections, and attention
// as in attend.h; memory: all tensors once more, in f32.
//
// Contract: any strides; x, matrices, biases and y f32, f16 or bf16 throughout;
// a contradiction is INVALID_ARGUMENT before anything is written
// (layer_call.h). Baseline instruction set, see README.md.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <new>

#include "impl/eigen/attend.h"
#include "impl/layer_call.h"
#include "impl/tensor_view.h"

namespace qkvet::impl {
namespace {

using Matrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// x, [B T, D].
Matrix rows_of_x(const LayerCall& call) {
  Matrix x(call.batch * call.tokens, call.model_width);
  for (int64_t row = 0; row < x.rows(); ++row) {
    for (int64_t i = 0; i < x.cols(); ++i) {
      x(row, i) = call.x.get(row / call.tokens, row % call.tokens, i);
    }
  }
  return x;
}

// from W + b. Eigen adds in an order of its own, and the bias last.
Matrix project(const Matrix& from, const Projection& by) {
  Matrix matrix(by.rows, by.columns);
  for (int64_t i = 0; i < by.rows; ++i) {
    for (int64_t column = 0; column < by.columns; ++column) {
      matrix(i, column) = by.matrix.get(i, column);
    }
  }
  Matrix to = from * matrix;
  for (int64_t column = 0; by.bias.present() && column < by.columns; ++column) {
    to.col(column).array() += by.bias.get(column);
  }
  return to;
}

// Columns h d .. h d + d - 1 of a row are the channels of head h.
Matrix turned(const LayerCall& call, int64_t heads, Matrix rows) {
  for (int64_t n = 0; call.rope.present() && n < rows.rows() * heads; ++n) {
    const int64_t row = n / heads;
    const int64_t position =
        *call.rope.q.at(row / call.tokens, row % call.tokens, 0);
    turn_row(call.rope, position, call.width, rows.data() + n * call.width);
  }
  return rows;
}

// Columns h width + c of [B T, heads width] as a view [B, heads, T, width].
template <class T>
View<T> split(T* data, const LayerCall& call, int64_t heads, int64_t width) {
  const int64_t columns = heads * width;
  return {data, {call.tokens * columns, width, columns, 1}};
}

void return_stage(const View<const float>& from, const LayerCall& call,
                  int64_t heads, int64_t width, const Stored& to) {
  for (int64_t b = 0; to.present() && b < call.batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < call.tokens; ++t) {
        for (int64_t c = 0; c < width; ++c) {
          to.set(b, h, t, c, from.at(b, h, t)[c]);
        }
      }
    }
  }
}

qkvet_status compute_stages(const LayerCall& call, qkvet_text* why) {
  const int64_t d = call.width, dv = call.value_width;
  const Matrix x = rows_of_x(call);
  const Matrix q = turned(call, call.heads, project(x, call.w_q));
  const Matrix k = turned(call, call.kv_heads, project(x, call.w_k));
  const Matrix v = project(x, call.w_v);
  Matrix attended(x.rows(), call.heads * dv);
  ForwardCall heads;
  heads.batch = call.batch;
  heads.heads = call.heads;
  heads.kv_heads = call.kv_heads;
  heads.queries = heads.keys = call.tokens;
  heads.width = d;
  heads.value_width = dv;
  heads.q = split(q.data(), call, call.heads, d);
  heads.k = split(k.data(), call, call.kv_heads, d);
  heads.v = split(v.data(), call, call.kv_heads, dv);
  heads.o = split(attended.data(), call, call.heads, dv);
  heads.scale = call.scale;
  heads.causal = call.causal;
  const qkvet_status status = attend_with_eigen(heads, why);
  if (status != QKVET_OK) {
    return status;
  }
  const Matrix y = project(attended, call.w_o);
  for (int64_t row = 0; row < y.rows(); ++row) {
    for (int64_t i = 0; i < y.cols(); ++i) {
      call.y.set(row / call.tokens, row % call.tokens, i, 0, y(row, i));
    }
  }
  return_stage(heads.q, call, call.heads, d, call.q);
  return_stage(heads.k, call, call.kv_heads, d, call.k);
  return_stage(heads.v, call, call.kv_heads, dv, call.v);
  return_stage({attended.data(), {heads.o.step[0], dv, call.heads * dv, 1}},
               call, call.heads, dv, call.attended);
  return QKVET_OK;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_layer_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  qkvet_layer_args known = {};
  LayerCall call;
  qkvet_status status = check_exec(exec, why);
  if (status == QKVET_OK) {
    status = read_struct(args, &known, why);
  }
  if (status == QKVET_OK) {
    status = read_layer(self, known, &call, why);
  }
  if (status != QKVET_OK) {
    return status;
  }
  try {
    return compute_stages(call, why);
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the stages");
  }
}

constexpr qkvet_layer_table kTable = layer_table(forward, kF32);

}  // namespace

extern constinit const qkvet_kernel eigen_layer = layer_kernel(
    "eigen/layer", "one matrix product a projection; heads split by strides",
    {"impl/eigen/layer.cpp", __LINE__}, &kEigenPrecision, &kTable);

}  // namespace qkvet::impl
