// SPDX-License-Identifier: Apache-2.0
// The gradient of attention from o and lse, with named hooks. For every row i
// and every key j that it sees (backward.h; Dao, "FlashAttention-2", 3.1.2):
//
//   p  = exp(score - lse)          no second softmax
//   dp = do . v,   delta = sum_c do_c o_c
//   ds = p (dp - delta)            the gradient of a bias
//   dz = ds (1 - tanh^2)           with a softcap; else ds
//   dv += p do,   dq += dz k,   dk += dz q
//
// With dropout (dropout.h) p of dv and dp are multiplied by its factor.
//
// Last dq and dk are multiplied by the scale and turned back, if q and k were
// rotated; a sink gets the sum over the rows of -exp(sink - lse) delta.
//
// Members, heads and half storage are the plumbing of backward_kernel.h.
//
// A fault or a control is a class that derives from PlainBackward and replaces
// one hook. In the plumbing:
//
//   rows          how many rows of a member are walked
//   delta         of a row
//   key_head, value_head   the head whose dk or dv a query head adds to
//   empty_row     dq of a row that sees no key
//   no_queries    dk and dv of a member without queries
//   query_scale, key_scale   the factors at the end
//   turn_query_back, turn_key_back   the rotation of dq and of dk
//   sink          the gradient of a sink from one row
//   columns       how many columns of a row are written
//   value_source  which column of dv is written as column c
//
// and of the plainest arithmetic, BackwardRows:
//
//   nth_row       the order of the rows
//   sees          which pairs count
//   weight        p
//   from_weight   ds
//   slope         dz / ds
//   operand       what p and dz are rounded to before a product
//   value_columns how many columns of dv are summed
//   keeps         which weights dropout keeps
//   differentiated   the p of the softmax's gradient
//
// Arithmetic: every sum one lane, ascending (for dk and dv rows within heads of
// a group), products rounded, expf.
#ifndef QKVET_IMPL_SKELETONS_BACKWARD_SKELETON_H_
#define QKVET_IMPL_SKELETONS_BACKWARD_SKELETON_H_

#include <cmath>
#include <cstdint>

#include "impl/call/backward_call.h"
#include "impl/call/rope.h"
#include "impl/skeletons/backward_piece.h"

namespace qkvet::impl {

struct TurnBack : PlainTurn {
  static float sine(float sin) { return -sin; }
};

inline float product_of_rows(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) {
    sum += a[c] * b[c];
  }
  return sum;
}

struct PlainBackward {
  // `room`: the number of rows in memory.
  static int64_t rows(const ForwardCall& call, int64_t /*room*/) {
    return call.queries;
  }
  static float delta(const ForwardCall& call, const float* d_o,
                     const float* o) {
    return product_of_rows(d_o, o, call.value_width);
  }
  static int64_t key_head(const ForwardCall& call, int64_t h) {
    return h / call.group();
  }
  static int64_t value_head(const ForwardCall& call, int64_t h) {
    return h / call.group();
  }
  static float empty_row() { return 0; }
  static float no_queries() { return 0; }
  static float query_scale(const ForwardCall& call) { return call.scale; }
  static float key_scale(const ForwardCall& call) { return call.scale; }
  static void turn_query_back(const Rope& rope, int64_t position, int64_t width,
                              float* row) {
    turn_row<TurnBack>(rope, position, width, row);
  }
  static void turn_key_back(const Rope& rope, int64_t position, int64_t width,
                            float* row) {
    turn_row<TurnBack>(rope, position, width, row);
  }
  static float sink(float sink, float lse, float delta) {
    return -std::exp(sink - lse) * delta;
  }
  static int64_t columns(int64_t width) { return width; }
  static int64_t value_source(const ForwardCall&, int64_t c) { return c; }

  static int64_t nth_row(int64_t n, int64_t /*rows*/) { return n; }
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end && call.options.allows(b, h, i, j);
  }
  // A weight of row i, from its score and the lse of the row.
  static float weight(const ForwardCall&, int64_t /*i*/, float score,
                      float lse) {
    return std::exp(score - lse);
  }
  static float from_weight(float p, float dp, float delta) {
    return p * (dp - delta);
  }
  static float slope(const ForwardCall& call, float scaled) {
    return softcap_slope(call, scaled);
  }
  static float operand(const ForwardCall&, float value) { return value; }
  static bool keeps(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                    int64_t j) {
    return call.options.dropout.keeps(b, h, i, j);
  }
  // The p of the softmax's own gradient; `factor` is the factor of dropout for
  // it.
  static float differentiated(float p, float /*factor*/) { return p; }
  static int64_t value_columns(const ForwardCall& call) {
    return call.value_width;
  }
};

inline void add_row(float factor, const float* row, int64_t n, float* to) {
  for (int64_t c = 0; c < n; ++c) {
    to[c] += factor * row[c];
  }
}

// The plainest arithmetic: pair by pair.
template <class Hooks>
struct BackwardRows {
  static void pair(const BackwardPiece& piece, int64_t r, int64_t j) {
    const ForwardCall& call = *piece.call;
    const int64_t i = piece.first + r, d = call.width, dv = call.value_width;
    const float* const q = piece.q + r * d;
    const float* const k = piece.k + j * d;
    const float* const d_o = piece.d_o + r * dv;
    const float scaled = product_of_rows(q, k, d) * call.scale;
    const float score = with_options(call, piece.b, piece.h, i, j, scaled);
    const float p = Hooks::weight(call, i, score, piece.lse[r]);
    const Dropout& dropout = call.options.dropout;
    float factor = 1;
    if (dropout.present()) {
      const bool kept = Hooks::keeps(call, piece.b, piece.h, i, j);
      factor = kept ? dropout.scale() : 0;
    }
    const float dp = product_of_rows(d_o, piece.v + j * dv, dv) * factor;
    const float ds = Hooks::from_weight(Hooks::differentiated(p, factor), dp,
                                        piece.delta[r]);
    const float dz = Hooks::operand(call, ds * Hooks::slope(call, scaled));
    piece.give_bias(r, j, ds);
    add_row(Hooks::operand(call, p * factor), d_o, Hooks::value_columns(call),
            piece.d_v + j * dv);
    add_row(dz, k, d, piece.d_q + r * d);
    add_row(dz, q, d, piece.d_k + j * d);
  }

  static qkvet_status piece(const BackwardPiece& piece, qkvet_context*,
                            qkvet_text*) {
    for (int64_t n = 0; n < piece.rows; ++n) {
      const int64_t r = Hooks::nth_row(n, piece.rows);
      for (int64_t j = 0; j < piece.call->keys; ++j) {
        if (Hooks::sees(*piece.call, piece.b, piece.h, piece.first + r, j)) {
          pair(piece, r, j);
        }
      }
    }
    return QKVET_OK;
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_BACKWARD_SKELETON_H_
