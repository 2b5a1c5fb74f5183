// SPDX-License-Identifier: Apache-2.0
// The stages of a layer as matrices of rows (b, t), in f32: heads are blocks of
// columns.
#ifndef QKVET_IMPL_EIGEN_LAYER_MATRICES_H_
#define QKVET_IMPL_EIGEN_LAYER_MATRICES_H_

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <utility>

#include "impl/call/forward_view.h"
#include "impl/call/layer_call.h"
#include "impl/call/rope.h"
#include "impl/call/tensor_view.h"

namespace qkvet::impl {

using Matrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// [B, T, D] as [B T, D].
inline Matrix rows_of(const LayerCall& call, const Stored& from) {
  Matrix rows(call.batch * call.tokens, call.model_width);
  for (int64_t row = 0; row < rows.rows(); ++row) {
    for (int64_t i = 0; i < rows.cols(); ++i) {
      rows(row, i) = from.get(row / call.tokens, row % call.tokens, i);
    }
  }
  return rows;
}

inline void write_rows(const LayerCall& call, const Matrix& from,
                       const Stored& to) {
  for (int64_t row = 0; row < from.rows(); ++row) {
    for (int64_t i = 0; i < from.cols(); ++i) {
      to.set(row / call.tokens, row % call.tokens, i, 0, from(row, i));
    }
  }
}

inline Matrix matrix_of(const Projection& by) {
  Matrix matrix(by.rows, by.columns);
  for (int64_t i = 0; i < by.rows; ++i) {
    for (int64_t column = 0; column < by.columns; ++column) {
      matrix(i, column) = by.matrix.get(i, column);
    }
  }
  return matrix;
}

// from W + b. Eigen adds in an order of its own, and the bias last.
inline Matrix project(const Matrix& from, const Projection& by) {
  Matrix to = from * matrix_of(by);
  for (int64_t column = 0; by.bias.present() && column < by.columns; ++column) {
    to.col(column).array() += by.bias.get(column);
  }
  return to;
}

// Columns h d .. h d + d - 1 of a row are the channels of head h.
template <class Turn = PlainTurn>
Matrix turned(const LayerCall& call, int64_t heads, Matrix rows) {
  for (int64_t n = 0; call.rope.present() && n < rows.rows() * heads; ++n) {
    const int64_t row = n / heads;
    const int64_t position =
        *call.rope.q.at(row / call.tokens, row % call.tokens, 0);
    turn_row<Turn>(call.rope, position, call.width,
                   rows.data() + n * call.width);
  }
  return rows;
}

// Columns h width + c of [B T, heads width] as a view [B, heads, T, width].
template <class T>
View<T> split(T* data, const LayerCall& call, int64_t heads, int64_t width) {
  const int64_t columns = heads * width;
  return {data, {call.tokens * columns, width, columns, 1}};
}

// Stages up to attention; attend_with_eigen() writes its result.
struct LayerMatrices {
  explicit LayerMatrices(const LayerCall& call)
      : x(rows_of(call, call.x)),
        q(turned(call, call.heads, project(x, call.w_q))),
        k(turned(call, call.kv_heads, project(x, call.w_k))),
        v(project(x, call.w_v)),
        attended(x.rows(), call.heads * call.value_width) {}

  ForwardCall heads(const LayerCall& call) {
    const int64_t d = call.width, dv = call.value_width;
    ForwardCall heads;
    heads.batch = call.batch;
    heads.heads = call.heads;
    heads.kv_heads = call.kv_heads;
    heads.queries = heads.keys = call.tokens;
    heads.width = d;
    heads.value_width = dv;
    heads.q = split<const float>(q.data(), call, call.heads, d);
    heads.k = split<const float>(k.data(), call, call.kv_heads, d);
    heads.v = split<const float>(v.data(), call, call.kv_heads, dv);
    heads.o = split(attended.data(), call, call.heads, dv);
    heads.scale = call.scale;
    heads.causal = call.causal;
    return heads;
  }

  Matrix x;         // [B T, D]
  Matrix q;         // [B T, H d], rotated
  Matrix k;         // [B T, Hkv d], rotated
  Matrix v;         // [B T, Hkv dv]
  Matrix attended;  // [B T, H dv], merged
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_EIGEN_LAYER_MATRICES_H_
