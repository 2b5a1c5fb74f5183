// SPDX-License-Identifier: Apache-2.0
// The stages of a layer as rows (b, t) in f32, for layer.cpp and its gradient:
// heads are blocks of columns.
#ifndef QKVET_IMPL_AVX2_LAYER_STAGES_H_
#define QKVET_IMPL_AVX2_LAYER_STAGES_H_

#include <cstdint>
#include <vector>

#include "impl/avx2/matrix_product.h"
#include "impl/call/forward_view.h"
#include "impl/call/layer_call.h"
#include "impl/call/rope.h"
#include "impl/call/tensor_view.h"

namespace qkvet::impl {

// Contiguous, row-major.
struct LayerRows {
  LayerRows(int64_t rows_of, int64_t columns_of)
      : rows(rows_of),
        columns(columns_of),
        data(static_cast<size_t>(rows_of * columns_of)) {}
  float& at(int64_t row, int64_t column) {
    return data[static_cast<size_t>(row * columns + column)];
  }
  float at(int64_t row, int64_t column) const {
    return data[static_cast<size_t>(row * columns + column)];
  }
  // Columns h width + c as a view [B, heads, T, width].
  View<float> heads(const LayerCall& call, int64_t width) {
    return {data.data(), {call.tokens * columns, width, columns, 1}};
  }
  Stored stored_heads(const LayerCall& call, int64_t width) {
    return {
        data.data(), Storage::kF32, {call.tokens * columns, width, columns, 1}};
  }

  int64_t rows, columns;
  std::vector<float> data;
};

// [B, T, D] as [B T, D].
inline LayerRows rows_of(const LayerCall& call, const Stored& from) {
  LayerRows rows(call.batch * call.tokens, call.model_width);
  for (int64_t n = 0; n < rows.rows; ++n) {
    for (int64_t i = 0; i < rows.columns; ++i) {
      rows.at(n, i) = from.get(n / call.tokens, n % call.tokens, i);
    }
  }
  return rows;
}

inline void write_rows(const LayerCall& call, const LayerRows& from,
                       const Stored& to) {
  for (int64_t n = 0; n < from.rows; ++n) {
    for (int64_t i = 0; i < from.columns; ++i) {
      to.set(n / call.tokens, n % call.tokens, i, 0, from.at(n, i));
    }
  }
}

inline LayerRows matrix_of(const Projection& by) {
  LayerRows matrix(by.rows, by.columns);
  for (int64_t i = 0; i < by.rows; ++i) {
    for (int64_t column = 0; column < by.columns; ++column) {
      matrix.at(i, column) = by.matrix.get(i, column);
    }
  }
  return matrix;
}

inline LayerRows transposed(const LayerRows& from) {
  LayerRows to(from.columns, from.rows);
  for (int64_t i = 0; i < from.rows; ++i) {
    for (int64_t column = 0; column < from.columns; ++column) {
      to.at(column, i) = from.at(i, column);
    }
  }
  return to;
}

// to += a b.
inline void add_product(const LayerRows& a, const LayerRows& b, LayerRows* to) {
  matrix_product(a.data.data(), b.data.data(), a.rows, a.columns, b.columns,
                 to->data.data());
}
inline LayerRows product(const LayerRows& a, const LayerRows& b) {
  LayerRows to(a.rows, b.columns);
  add_product(a, b, &to);
  return to;
}

// from W + b; the bias is added to the finished sum.
inline LayerRows project(const LayerRows& from, const Projection& by) {
  LayerRows to = product(from, matrix_of(by));
  for (int64_t n = 0; by.bias.present() && n < to.rows; ++n) {
    for (int64_t column = 0; column < to.columns; ++column) {
      to.at(n, column) += by.bias.get(column);
    }
  }
  return to;
}

template <class Turn = PlainTurn>
LayerRows turned(const LayerCall& call, int64_t heads, LayerRows rows) {
  for (int64_t n = 0; call.rope.present() && n < rows.rows * heads; ++n) {
    const int64_t row = n / heads;
    const int64_t position =
        *call.rope.q.at(row / call.tokens, row % call.tokens, 0);
    turn_row<Turn>(call.rope, position, call.width,
                   rows.data.data() + n * call.width);
  }
  return rows;
}

// Stages up to attention; the caller writes its result to `attended`.
struct LayerStages {
  explicit LayerStages(const LayerCall& call)
      : x(rows_of(call, call.x)),
        q(turned(call, call.heads, project(x, call.w_q))),
        k(turned(call, call.kv_heads, project(x, call.w_k))),
        v(project(x, call.w_v)),
        attended(x.rows, call.heads * call.value_width) {}

  ForwardCall heads(const LayerCall& call) {
    ForwardCall heads;
    heads.batch = call.batch;
    heads.heads = call.heads;
    heads.kv_heads = call.kv_heads;
    heads.queries = heads.keys = call.tokens;
    heads.width = call.width;
    heads.value_width = call.value_width;
    heads.q = read_only(q.heads(call, call.width));
    heads.k = read_only(k.heads(call, call.width));
    heads.v = read_only(v.heads(call, call.value_width));
    heads.o = attended.heads(call, call.value_width);
    heads.scale = call.scale;
    heads.causal = call.causal;
    return heads;
  }

  LayerRows x;         // [B T, D]
  LayerRows q;         // [B T, H d], rotated
  LayerRows k;         // [B T, Hkv d], rotated
  LayerRows v;         // [B T, Hkv dv]
  LayerRows attended;  // [B T, H dv], merged
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_LAYER_STAGES_H_
