// SPDX-License-Identifier: Apache-2.0
// Rows of a gradient on AVX2 and FMA: dot products in eight lanes over the
// channels, four keys at a time; weights eight keys at a time; sums by FMA,
// eight channels at a time.
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

// Keys whose chains run beside each other.
constexpr int kKeys = 4;

void store_first(float* p, int64_t n, __m256 x) {
  if (n >= kLanes) {
    _mm256_storeu_ps(p, x);
  } else {
    _mm256_maskstore_ps(p, first_lanes(n), x);
  }
}

float sum_of_lanes(__m256 x) {
  const __m128 four =
      _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
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

}  // namespace qkvet::impl
