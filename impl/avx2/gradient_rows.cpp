// SPDX-License-Identifier: Apache-2.0
// Rows of a gradient on AVX2 and FMA: dot products in eight lanes over the
// channels, four keys at a time, or four rows and two keys; weights eight keys
// at a time; sums by FMA, eight channels at a time.
//
// Arithmetic: q.k and do.v are eight FMA chains, lane c % 8, added as a tree;
// one product with the scale; exp as in exp.h; every sum over keys or rows is
// one FMA chain, ascending.
//
// Contract: no byte outside of the tensors (tails by masked loads and stores),
// any address aligned to elements. Only keys in [begin, end) are read.
#include "impl/avx2/gradient_rows.h"

#include <immintrin.h>
#include <stdint.h>

#include "impl/avx2/exp.h"
#include "impl/avx2/lanes.h"

namespace qkvet::impl {
namespace {

// Keys computed side by side, as independent chains.
constexpr int kKeys = 4;
// The same beside four rows.
constexpr int kPair = 2;

void store_first(float* p, int64_t n, __m256 x) {
  if (n >= kLanes) {
    _mm256_storeu_ps(p, x);
  } else if (n > 0) {
    _mm256_maskstore_ps(p, first_lanes(n), x);
  }
}

// The sums of the lanes of four registers, each by the same tree.
__m128 sums_of_lanes(const __m256* x) {
  __m128 four[kRowsAtOnce];
  for (int r = 0; r < kRowsAtOnce; ++r) {
    four[r] = _mm_add_ps(_mm256_castps256_ps128(x[r]),
                         _mm256_extractf128_ps(x[r], 1));
  }
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(four[0], four[1]),
                               _mm_unpackhi_ps(four[0], four[1]));
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(four[2], four[3]),
                               _mm_unpackhi_ps(four[2], four[3]));
  return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

// to[n] = a . row n of b, for K rows of b.
template <int K>
void dot_rows(const float* a, const float* b, int64_t width, float* to) {
  __m256 sum[K];
  for (int n = 0; n < K; ++n) {
    sum[n] = _mm256_setzero_ps();
  }
  for (int64_t c = 0; c < width; c += kLanes) {
    const __m256 x = load_first(a + c, width - c);
    for (int n = 0; n < K; ++n) {
      const __m256 y = load_first(b + n * width + c, width - c);
      sum[n] = _mm256_fmadd_ps(x, y, sum[n]);
    }
  }
  for (int n = 0; n < K; ++n) {
    to[n] = sum_of_lanes(sum[n]);
  }
}

void dot_all(const float* a, const float* b, int64_t width, int64_t begin,
             int64_t end, float* to) {
  int64_t j = begin;
  for (; j + kKeys <= end; j += kKeys) {
    dot_rows<kKeys>(a, b + j * width, width, to + j);
  }
  for (; j < end; ++j) {
    dot_rows<1>(a, b + j * width, width, to + j);
  }
}

// to[r * stride + n] = row r of a . row n of b, for four rows of a and K of b.
template <int K>
void dot_four(const float* a, const float* b, int64_t width, int64_t stride,
              float* to) {
  __m256 sum[K][kRowsAtOnce];
  for (int n = 0; n < K; ++n) {
    for (int r = 0; r < kRowsAtOnce; ++r) {
      sum[n][r] = _mm256_setzero_ps();
    }
  }
  for (int64_t c = 0; c < width; c += kLanes) {
    __m256 y[K];
    for (int n = 0; n < K; ++n) {
      y[n] = load_first(b + n * width + c, width - c);
    }
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const __m256 x = load_first(a + r * width + c, width - c);
      for (int n = 0; n < K; ++n) {
        sum[n][r] = _mm256_fmadd_ps(x, y[n], sum[n][r]);
      }
    }
  }
  for (int n = 0; n < K; ++n) {
    alignas(16) float all[kRowsAtOnce];
    _mm_store_ps(all, sums_of_lanes(sum[n]));
    for (int r = 0; r < kRowsAtOnce; ++r) {
      to[r * stride + n] = all[r];
    }
  }
}

void dot_all_of_four(const float* a, const float* b, int64_t width,
                     int64_t begin, int64_t end, int64_t stride, float* to) {
  int64_t j = begin;
  for (; j + kPair <= end; j += kPair) {
    dot_four<kPair>(a, b + j * width, width, stride, to + j);
  }
  for (; j < end; ++j) {
    dot_four<1>(a, b + j * width, width, stride, to + j);
  }
}

// Row n of `to` += sum over four rows r of factor[r * stride + n] * row r of
// `rows`, ascending, for K rows of `to`.
template <int K>
void add_four(const float* factor, int64_t stride, const float* rows,
              int64_t width, float* to) {
  __m256 f[K][kRowsAtOnce];
  for (int n = 0; n < K; ++n) {
    for (int r = 0; r < kRowsAtOnce; ++r) {
      f[n][r] = _mm256_set1_ps(factor[r * stride + n]);
    }
  }
  for (int64_t c = 0; c < width; c += kLanes) {
    const int64_t left = width - c;
    __m256 sum[K];
    for (int n = 0; n < K; ++n) {
      sum[n] = load_first(to + n * width + c, left);
    }
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const __m256 x = load_first(rows + r * width + c, left);
      for (int n = 0; n < K; ++n) {
        sum[n] = _mm256_fmadd_ps(f[n][r], x, sum[n]);
      }
    }
    for (int n = 0; n < K; ++n) {
      store_first(to + n * width + c, left, sum[n]);
    }
  }
}

void add_all_of_four(const float* factor, int64_t stride, const float* rows,
                     int64_t width, int64_t begin, int64_t end, float* to) {
  int64_t j = begin;
  for (; j + kPair <= end; j += kPair) {
    add_four<kPair>(factor + j, stride, rows, width, to + j * width);
  }
  for (; j < end; ++j) {
    add_four<1>(factor + j, stride, rows, width, to + j * width);
  }
}

// Row r of `to` += sum over keys j of factor[r * stride + j] * row j of `rows`,
// ascending: sixteen channels of four rows stay in registers.
void add_keys_to_four(const float* factor, int64_t stride, const float* rows,
                      int64_t width, int64_t begin, int64_t end, float* to) {
  for (int64_t c = 0; c < width; c += 2 * kLanes) {
    const int64_t left = width - c;
    __m256 sum[kRowsAtOnce][2];
    for (int r = 0; r < kRowsAtOnce; ++r) {
      sum[r][0] = load_first(to + r * width + c, left);
      sum[r][1] = load_first(to + r * width + c + kLanes, left - kLanes);
    }
    for (int64_t j = begin; j < end; ++j) {
      const float* const row = rows + j * width + c;
      const __m256 low = load_first(row, left);
      const __m256 high = load_first(row + kLanes, left - kLanes);
      for (int r = 0; r < kRowsAtOnce; ++r) {
        const __m256 f = _mm256_set1_ps(factor[r * stride + j]);
        sum[r][0] = _mm256_fmadd_ps(f, low, sum[r][0]);
        sum[r][1] = _mm256_fmadd_ps(f, high, sum[r][1]);
      }
    }
    for (int r = 0; r < kRowsAtOnce; ++r) {
      store_first(to + r * width + c, left, sum[r][0]);
      store_first(to + r * width + c + kLanes, left - kLanes, sum[r][1]);
    }
  }
}

// to += factor * row
void add_row(float factor, const float* row, int64_t width, float* to) {
  const __m256 f = _mm256_set1_ps(factor);
  for (int64_t c = 0; c < width; c += kLanes) {
    const int64_t left = width - c;
    const __m256 sum =
        _mm256_fmadd_ps(f, load_first(row + c, left), load_first(to + c, left));
    store_first(to + c, left, sum);
  }
}

}  // namespace

void gradient_products(const GradientRow& row, int64_t begin, int64_t end,
                       float* score, float* dp) {
  dot_all(row.q, row.k, row.width, begin, end, score);
  dot_all(row.d_o, row.v, row.value_width, begin, end, dp);
  for (int64_t j = begin; j < end; ++j) {
    score[j] *= row.scale;
  }
}

void gradient_weights(const GradientRow& row, int64_t begin, int64_t end,
                      float* score, float* dp) {
  const __m256 lse = _mm256_set1_ps(row.lse);
  const __m256 delta = _mm256_set1_ps(row.delta);
  for (int64_t j = begin; j < end; j += kLanes) {
    const int64_t left = end - j;
    const __m256 p =
        exp_nonpositive(_mm256_sub_ps(load_first(score + j, left), lse));
    const __m256 over = _mm256_sub_ps(load_first(dp + j, left), delta);
    store_first(score + j, left, p);
    store_first(dp + j, left, _mm256_mul_ps(p, over));
  }
}

void gradient_sums(const GradientRow& row, int64_t begin, int64_t end,
                   const float* p, const float* dz) {
  for (int64_t j = begin; j < end; ++j) {
    add_row(p[j], row.d_o, row.value_width, row.d_v + j * row.value_width);
    add_row(dz[j], row.k + j * row.width, row.width, row.d_q);
    add_row(dz[j], row.q, row.width, row.d_k + j * row.width);
  }
}

void gradient_products_of_four(const GradientRow& first, int64_t begin,
                               int64_t end, int64_t stride, float* score,
                               float* dp) {
  dot_all_of_four(first.q, first.k, first.width, begin, end, stride, score);
  dot_all_of_four(first.d_o, first.v, first.value_width, begin, end, stride,
                  dp);
  for (int64_t r = 0; r < kRowsAtOnce; ++r) {
    for (int64_t j = begin; j < end; ++j) {
      score[r * stride + j] *= first.scale;
    }
  }
}

void gradient_sums_of_four(const GradientRow& first, int64_t begin, int64_t end,
                           int64_t stride, const float* p, const float* dz) {
  add_all_of_four(p, stride, first.d_o, first.value_width, begin, end,
                  first.d_v);
  add_all_of_four(dz, stride, first.q, first.width, begin, end, first.d_k);
  add_keys_to_four(dz, stride, first.k, first.width, begin, end, first.d_q);
}

}  // namespace qkvet::impl
