// SPDX-License-Identifier: Apache-2.0
// The work of flash_kernel.cpp on one tile: softmax of a row, and register
// tiles of up to six rows and 16 columns. For translation units compiled with
// AVX2 and FMA: everything has internal linkage.
#ifndef QKVET_IMPL_AVX2_TILE_H_
#define QKVET_IMPL_AVX2_TILE_H_

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "impl/avx2/exp.h"
#include "impl/avx2/flash_kernel.h"
#include "impl/avx2/pack.h"

namespace qkvet::impl {
namespace {

float max_lane(__m256 x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

float sum_lanes(__m256 x) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// ---- Softmax of one row of a tile ------------------------------------------

// Maximum of n >= 1 scores; NaN is skipped and gives a NaN weight later.
float row_maximum(const float* s, int64_t n) {
  const __m256 lowest = _mm256_set1_ps(-INFINITY);
  __m256 max = lowest;
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    max = _mm256_max_ps(_mm256_load_ps(s + j), max);
  }
  if (j < n) {
    const __m256 mask = _mm256_castsi256_ps(first_lanes(n - j));
    max = _mm256_max_ps(_mm256_blendv_ps(lowest, _mm256_load_ps(s + j), mask),
                        max);
  }
  return max_lane(max);
}

// Scores to weights in place; returns their sum.
float row_weights(float* s, int64_t n, float maximum) {
  const __m256 max = _mm256_set1_ps(maximum);
  __m256 sum = _mm256_setzero_ps();
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const __m256 w = exp_nonpositive(_mm256_sub_ps(_mm256_load_ps(s + j), max));
    _mm256_store_ps(s + j, w);
    sum = _mm256_add_ps(sum, w);
  }
  if (j < n) {
    const __m256 mask = _mm256_castsi256_ps(first_lanes(n - j));
    const __m256 w = _mm256_and_ps(
        mask, exp_nonpositive(_mm256_sub_ps(_mm256_load_ps(s + j), max)));
    _mm256_store_ps(s + j, w);
    sum = _mm256_add_ps(sum, w);
  }
  return sum_lanes(sum);
}

// ---- Register tiles --------------------------------------------------------

// s[r][0..15] = scale * sum_c q[c][r] k[c][0..15].
template <int R>
void score_panel(const float* q, const float* k, int64_t width, float scale,
                 float* s) {
  __m256 sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  }
  for (int64_t c = 0; c < width; ++c, q += R, k += kPanel) {
    const __m256 k0 = _mm256_load_ps(k);
    const __m256 k1 = _mm256_load_ps(k + kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m256 x = _mm256_broadcast_ss(q + r);
      sum[r][0] = _mm256_fmadd_ps(x, k0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(x, k1, sum[r][1]);
    }
  }
  const __m256 factor = _mm256_set1_ps(scale);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    _mm256_store_ps(s + r * kTileKeys, _mm256_mul_ps(sum[r][0], factor));
    _mm256_store_ps(s + r * kTileKeys + kLanes,
                    _mm256_mul_ps(sum[r][1], factor));
  }
}

// acc[r][0..15] = acc[r] * factor[r] + sum_j w[r][j] v[j][0..15], or without
// the old acc in the first tile.
template <int R, bool kFirst>
void value_panel(const float* w, const float* v, int64_t keys,
                 const float* factor, float* acc, int64_t acc_step) {
  __m256 sum[R][2];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    if constexpr (kFirst) {
      sum[r][0] = sum[r][1] = _mm256_setzero_ps();
    } else {
      const __m256 f = _mm256_broadcast_ss(factor + r);
      sum[r][0] = _mm256_mul_ps(_mm256_load_ps(acc + r * acc_step), f);
      sum[r][1] = _mm256_mul_ps(_mm256_load_ps(acc + r * acc_step + kLanes), f);
    }
  }
  for (int64_t j = 0; j < keys; ++j, v += kPanel) {
    const __m256 v0 = _mm256_load_ps(v);
    const __m256 v1 = _mm256_load_ps(v + kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const __m256 x = _mm256_broadcast_ss(w + r * kTileKeys + j);
      sum[r][0] = _mm256_fmadd_ps(x, v0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(x, v1, sum[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r) {
    _mm256_store_ps(acc + r * acc_step, sum[r][0]);
    _mm256_store_ps(acc + r * acc_step + kLanes, sum[r][1]);
  }
}

}  // namespace
}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_TILE_H_
