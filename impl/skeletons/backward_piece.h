// SPDX-License-Identifier: Apache-2.0
// The input of a gradient's arithmetic: rows of one query head, with all
// tensors in f32 and contiguous.
#ifndef QKVET_IMPL_SKELETONS_BACKWARD_PIECE_H_
#define QKVET_IMPL_SKELETONS_BACKWARD_PIECE_H_

#include <cstdint>

#include "impl/call/forward_view.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// Query rows of a piece.
inline constexpr int64_t kBackwardRows = 64;

// Numbers of scratch for each key.
inline constexpr int64_t kBackwardScratch = 9;

// Rows [first, first + rows) of query head h of member b, and their sums.
struct BackwardPiece {
  const ForwardCall* call;  // visible pairs, and options that change a score
  int64_t b, h, first, rows;
  int32_t threads;     // that the call may use
  bool new_keys;       // k and v are not those of the piece before
  const float* q;      // [rows, d], rotated if asked for
  const float* k;      // [Tk, d], the same
  const float* v;      // [Tk, dv]
  const float* d_o;    // [rows, dv]
  const float* lse;    // [rows]
  const float* delta;  // [rows]
  float* d_q;          // [rows, d]: 0, becomes the sum of dz k
  float* d_k;          // [Tk, d]: the sum of dz q is added
  float* d_v;          // [Tk, dv]: the sum of p do is added
  Stored d_bias;       // [rows, Tk]: 0, where asked for
  float* scratch;      // [kBackwardScratch Tk]
  int64_t* keys;       // [Tk]

  void give_bias(int64_t r, int64_t j, float ds) const {
    if (d_bias.present()) {
      d_bias.set(0, 0, r, j, ds);
    }
  }
};

using BackwardArithmetic = qkvet_status (*)(const BackwardPiece& piece,
                                            qkvet_context* context,
                                            qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_BACKWARD_PIECE_H_
