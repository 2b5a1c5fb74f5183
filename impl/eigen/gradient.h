// SPDX-License-Identifier: Apache-2.0
// The gradient of a piece of rows as matrix expressions, in tiles of keys.
//
//   P = exp(scale Q K^T - lse),  dZ = P (dO V^T - delta)
//   dV += P^T dO,  dQ += dZ K,  dK += dZ^T Q
//
// A tile that is visible to every row of the piece takes these products. In any
// other the sums take row by row the runs of keys that the row sees, so that
// hidden keys are never multiplied, not even with 0.
//
// Cost: 4 (d + dv) + 2 d flops a pair of a tile that any row sees; memory for 2
// kBackwardRows * kGradientKeys floats and a piece of rows.
#ifndef QKVET_IMPL_EIGEN_GRADIENT_H_
#define QKVET_IMPL_EIGEN_GRADIENT_H_

#include "impl/skeletons/backward_piece.h"

namespace qkvet::impl {

qkvet_status gradient_with_eigen(const BackwardPiece& piece, qkvet_context*,
                                 qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_EIGEN_GRADIENT_H_
