// SPDX-License-Identifier: Apache-2.0
// Four rows and sixteen columns of the result in registers at a time.
//
// Contract: no byte outside of the matrices (tails by masked loads and stores),
// any address aligned to elements.
#include "impl/avx2/matrix_product.h"

#include <immintrin.h>
#include <stdint.h>

#include "impl/avx2/lanes.h"

namespace qkvet::impl {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 2 * kLanes;

struct Product {
  const float* a;
  const float* b;
  int64_t inner, columns;
  float* c;
};

void store_first(float* p, int64_t n, __m256 x) {
  if (n >= kLanes) {
    _mm256_storeu_ps(p, x);
  } else if (n > 0) {
    _mm256_maskstore_ps(p, first_lanes(n), x);
  }
}

// R rows from `row` on, `left` columns from `column` on.
template <int R>
void tile(const Product& p, int64_t row, int64_t column, int64_t left) {
  __m256 sum[R][2];
  float* const c = p.c + row * p.columns + column;
  for (int r = 0; r < R; ++r) {
    const float* const old = c + r * p.columns;
    sum[r][0] = load_first(old, left);
    sum[r][1] = left > kLanes ? load_first(old + kLanes, left - kLanes)
                              : _mm256_setzero_ps();
  }
  const float* b = p.b + column;
  for (int64_t i = 0; i < p.inner; ++i, b += p.columns) {
    const __m256 b0 = load_first(b, left);
    const __m256 b1 = left > kLanes ? load_first(b + kLanes, left - kLanes)
                                    : _mm256_setzero_ps();
    for (int r = 0; r < R; ++r) {
      const __m256 a = _mm256_broadcast_ss(p.a + (row + r) * p.inner + i);
      sum[r][0] = _mm256_fmadd_ps(a, b0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(a, b1, sum[r][1]);
    }
  }
  for (int r = 0; r < R; ++r) {
    store_first(c + r * p.columns, left, sum[r][0]);
    if (left > kLanes) {
      store_first(c + r * p.columns + kLanes, left - kLanes, sum[r][1]);
    }
  }
}

}  // namespace

void matrix_product(const float* a, const float* b, int64_t rows, int64_t inner,
                    int64_t columns, float* c) {
  const Product p = {a, b, inner, columns, c};
  for (int64_t column = 0; column < columns; column += kColumns) {
    const int64_t left = columns - column;
    int64_t row = 0;
    for (; row + kRows <= rows; row += kRows) {
      tile<kRows>(p, row, column, left);
    }
    for (; row < rows; ++row) {
      tile<1>(p, row, column, left);
    }
  }
}

}  // namespace qkvet::impl
