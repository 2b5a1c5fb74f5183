// SPDX-License-Identifier: Apache-2.0
// The gradient of a piece of rows by the functions of gradient_rows.h, four
// rows or one at a time over the runs of keys that they see. Baseline code.
#ifndef QKVET_IMPL_AVX2_GRADIENT_H_
#define QKVET_IMPL_AVX2_GRADIENT_H_

#include "impl/skeletons/backward_piece.h"

namespace qkvet::impl {

// For a CPU with AVX2 and FMA; needs a context.
qkvet_status gradient_on_avx2(const BackwardPiece& piece,
                              qkvet_context* context, qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_GRADIENT_H_
