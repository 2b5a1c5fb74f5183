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

constexpr int64_t kLine = 64;  // bytes of a line of the cache

// The places of k and v of the tile after this one, in bytes. `element` is 0 if
// they are in the cache already.
struct NextTile {
  const char *k, *v;
  int64_t k_row, v_row, element;
};

// The keys of a tile: in panels, or in rows of f32.
struct TileKeys {
  const float* k;          // of panels: [d, kPanel]
  int64_t k_row, k_col;    // of rows
  const float* v;          // 16 columns of a key are contiguous
  int64_t v_row, v_panel;  // from key to key, from 16 columns to the next ones
  NextTile next;
};

// Brings columns c and on of `count` keys of the next tile, from number j on,
// into the cache while this tile is computed.
void fetch(const NextTile& next, int64_t j, int64_t count, int64_t c) {
  for (int64_t n = j; n < j + count; ++n) {
    _mm_prefetch(next.k + n * next.k_row + c * next.element, _MM_HINT_T0);
    _mm_prefetch(next.v + n * next.v_row + c * next.element, _MM_HINT_T0);
  }
}

// Element n is element c of row n.
__m256 column_of(const float* const* row, int64_t c) {
  return _mm256_set_ps(row[7][c], row[6][c], row[5][c], row[4][c], row[3][c],
                       row[2][c], row[1][c], row[0][c]);
}

// Columns c to c + 3 of eight rows.
void columns_of(const float* const* row, int64_t c, __m256* column) {
  __m256 x[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] =
        _mm256_set_m128(_mm_loadu_ps(row[i + 4] + c), _mm_loadu_ps(row[i] + c));
  }
  const __m256 low = _mm256_unpacklo_ps(x[0], x[1]);
  const __m256 next_low = _mm256_unpacklo_ps(x[2], x[3]);
  const __m256 high = _mm256_unpackhi_ps(x[0], x[1]);
  const __m256 next_high = _mm256_unpackhi_ps(x[2], x[3]);
  column[0] = _mm256_shuffle_ps(low, next_low, 0x44);
  column[1] = _mm256_shuffle_ps(low, next_low, 0xEE);
  column[2] = _mm256_shuffle_ps(high, next_high, 0x44);
  column[3] = _mm256_shuffle_ps(high, next_high, 0xEE);
}

// The scores of score_panel(), of `keys` keys in rows.
template <int R>
void score_rows(const float* q, const TileKeys& tile, int64_t keys,
                int64_t width, float scale, float* s) {
  // As many chains as there are registers for: each waits for its last product.
  constexpr int kGroups = R == 1 ? 4 : R <= 4 ? 2 : 1;
  for (int64_t j = 0; j < keys; j += kGroups * kLanes) {
    const float* row[kGroups * kLanes];
    for (int64_t n = 0; n < kGroups * kLanes; ++n) {
      row[n] = tile.k + min_of(j + n, keys - 1) * tile.k_row;
    }
    __m256 sum[R][kGroups] = {};
    int64_t c = 0;
    for (; tile.k_col == 1 && c + 4 <= width; c += 4) {
      if (tile.next.element > 0 && c * tile.next.element % kLine == 0) {
        fetch(tile.next, j, kGroups * kLanes, c);
      }
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        __m256 k[4];
        columns_of(row + g * kLanes, c, k);
#pragma GCC unroll 24
        for (int n = 0; n < 4 * R; ++n) {
          sum[n % R][g] = _mm256_fmadd_ps(_mm256_broadcast_ss(q + c * R + n),
                                          k[n / R], sum[n % R][g]);
        }
      }
    }
    for (; c < width; ++c) {
      for (int g = 0; g < kGroups; ++g) {
        const __m256 k = column_of(row + g * kLanes, c * tile.k_col);
        for (int r = 0; r < R; ++r) {
          sum[r][g] =
              _mm256_fmadd_ps(_mm256_broadcast_ss(q + c * R + r), k, sum[r][g]);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int g = 0; g < kGroups; ++g) {
        _mm256_store_ps(s + r * kTileKeys + j + g * kLanes,
                        _mm256_mul_ps(sum[r][g], _mm256_set1_ps(scale)));
      }
    }
  }
}

// acc[r][0..15] = acc[r] * factor[r] + sum_j w[r][j] v[j][0..15], or without
// the old acc in the first tile.
template <int R, bool kFirst>
void value_panel(const float* w, const float* v, int64_t v_row, int64_t keys,
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
  for (int64_t j = 0; j < keys; ++j, v += v_row) {
    const __m256 v0 = _mm256_loadu_ps(v);
    const __m256 v1 = _mm256_loadu_ps(v + kLanes);
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
