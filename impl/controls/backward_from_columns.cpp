// SPDX-License-Identifier: Apache-2.0
// controls/backward_from_columns: the gradient key by key, as kernels do that
// give every tile of keys to a block: keys and rows last to first, weights once
// for dv and dk, and once more, in a second walk, for dq.
#include "impl/backward_kernel.h"
#include "impl/controls/arithmetic.h"
#include "impl/declare.h"

namespace qkvet::impl {
namespace {

struct Pair {
  float p, dz;
  bool seen;
};

Pair pair_of(const BackwardPiece& piece, int64_t r, int64_t j) {
  const ForwardCall& call = *piece.call;
  const int64_t i = piece.first + r, d = call.width, dv = call.value_width;
  if (!PlainBackward::sees(call, piece.b, piece.h, i, j)) {
    return {0, 0, false};
  }
  const float scaled =
      product_of_rows(piece.k + j * d, piece.q + r * d, d) * call.scale;
  const float score = with_options(call, piece.b, piece.h, i, j, scaled);
  const float p = std::exp(score - piece.lse[r]);
  const float dp = product_of_rows(piece.v + j * dv, piece.d_o + r * dv, dv);
  const float ds = p * dp - p * piece.delta[r];
  piece.give_bias(r, j, ds);
  return {p, ds * softcap_slope(call, scaled), true};
}

qkvet_status gradient(const BackwardPiece& piece, qkvet_context*, qkvet_text*) {
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width, dv = call.value_width;
  for (int64_t j = call.keys - 1; j >= 0; --j) {
    for (int64_t r = piece.rows - 1; r >= 0; --r) {
      const Pair pair = pair_of(piece, r, j);
      if (pair.seen) {
        add_row(pair.p, piece.d_o + r * dv, dv, piece.d_v + j * dv);
        add_row(pair.dz, piece.q + r * d, d, piece.d_k + j * d);
      }
    }
  }
  for (int64_t r = 0; r < piece.rows; ++r) {
    for (int64_t j = call.keys - 1; j >= 0; --j) {
      const Pair pair = pair_of(piece, r, j);
      if (pair.seen) {
        add_row(pair.dz, piece.k + j * d, d, piece.d_q + r * d);
      }
    }
  }
  return QKVET_OK;
}

constexpr qkvet_precision kPrecision = sequential_f32();

}  // namespace

extern constinit const qkvet_kernel controls_backward_from_columns =
    with_backward(
        plain_kernel("controls/backward_from_columns",
                     "gradient key by key, last to first, in two walks",
                     {"impl/controls/backward_from_columns.cpp", __LINE__},
                     &kPrecision, kRowForward<TwoPass<dot_ascending, libm_exp>>,
                     &kAllCapabilities),
        &kBackwardTable<PlainBackward, gradient>);

}  // namespace qkvet::impl
