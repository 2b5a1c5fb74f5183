// SPDX-License-Identifier: Apache-2.0
// Gradients whose rows are computed one by one, from all scores of the row:
//
//   static float Arithmetic::lse(const GradientScores&);
//   static float Arithmetic::delta(const GradientScores&, const float* p);
//
// say what the weights are taken against, and what is subtracted from dp.
#ifndef QKVET_IMPL_CONTROLS_ROW_GRADIENT_H_
#define QKVET_IMPL_CONTROLS_ROW_GRADIENT_H_

#include <cmath>
#include <cstdint>

#include "impl/skeletons/backward_kernel.h"

namespace qkvet::impl {

// Row r of a piece and the keys that it sees, piece.keys[0, count).
struct GradientScores {
  const BackwardPiece& piece;
  int64_t r, count;
  float *score, *dp, *slope;  // [count]

  float sink() const { return piece.call->options.sink_of(piece.h); }
};

inline void take_scores(const GradientScores& row) {
  const BackwardPiece& piece = row.piece;
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width, dv = call.value_width;
  for (int64_t n = 0; n < row.count; ++n) {
    const int64_t j = piece.keys[n];
    const float scaled =
        product_of_rows(piece.q + row.r * d, piece.k + j * d, d) * call.scale;
    row.score[n] =
        with_options(call, piece.b, piece.h, piece.first + row.r, j, scaled);
    row.slope[n] = softcap_slope(call, scaled);
    row.dp[n] = product_of_rows(piece.d_o + row.r * dv, piece.v + j * dv, dv);
  }
}

template <class Arithmetic>
void add_scored_row(const GradientScores& row) {
  const BackwardPiece& piece = row.piece;
  const int64_t d = piece.call->width, dv = piece.call->value_width;
  const float lse = Arithmetic::lse(row);
  for (int64_t n = 0; n < row.count; ++n) {
    row.score[n] = std::exp(row.score[n] - lse);
  }
  const float delta = Arithmetic::delta(row, row.score);
  for (int64_t n = 0; n < row.count; ++n) {
    const int64_t j = piece.keys[n];
    const float ds = row.score[n] * (row.dp[n] - delta);
    const float dz = ds * row.slope[n];
    piece.give_bias(row.r, j, ds);
    add_row(row.score[n], piece.d_o + row.r * dv, dv, piece.d_v + j * dv);
    add_row(dz, piece.k + j * d, d, piece.d_q + row.r * d);
    add_row(dz, piece.q + row.r * d, d, piece.d_k + j * d);
  }
}

template <class Arithmetic>
qkvet_status gradient_by_rows(const BackwardPiece& piece, qkvet_context*,
                              qkvet_text*) {
  const int64_t keys = piece.call->keys;
  for (int64_t r = 0; r < piece.rows; ++r) {
    const int64_t count =
        piece.call->list_keys(piece.b, piece.h, piece.first + r, piece.keys);
    const GradientScores row = {piece,
                                r,
                                count,
                                piece.scratch,
                                piece.scratch + keys,
                                piece.scratch + 2 * keys};
    take_scores(row);
    if (count > 0) {
      add_scored_row<Arithmetic>(row);
    }
  }
  return QKVET_OK;
}

// As given, as forward() gave it.
struct GivenLse {
  static float lse(const GradientScores& row) { return row.piece.lse[row.r]; }
};
struct GivenDelta {
  static float delta(const GradientScores& row, const float* /*p*/) {
    return row.piece.delta[row.r];
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_ROW_GRADIENT_H_
