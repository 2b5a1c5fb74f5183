// SPDX-License-Identifier: Apache-2.0
// The border between layer.cpp, baseline code, and matrix_product.cpp, which
// may use AVX2 and FMA.
#ifndef QKVET_IMPL_AVX2_MATRIX_PRODUCT_H_
#define QKVET_IMPL_AVX2_MATRIX_PRODUCT_H_

#include <stdint.h>

namespace qkvet::impl {

// c += a b: a is [rows, inner], b [inner, columns], c [rows, columns],
// contiguous. Every element is one FMA chain over `inner`, ascending, that
// begins with the old c.
void matrix_product(const float* a, const float* b, int64_t rows, int64_t inner,
                    int64_t columns, float* c);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_MATRIX_PRODUCT_H_
