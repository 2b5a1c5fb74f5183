// SPDX-License-Identifier: Apache-2.0
// Packing of K and V for flash_kernel.cpp.
// For translation units compiled with AVX2: everything has internal linkage.
#ifndef QKVET_IMPL_AVX2_PACK_H_
#define QKVET_IMPL_AVX2_PACK_H_

#include <immintrin.h>
#include <stdint.h>

#include "impl/avx2/flash_kernel.h"
#include "impl/avx2/lanes.h"

namespace qkvet::impl {
namespace {

int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t panels_of(int64_t n) { return (n + kPanel - 1) / kPanel; }

void transpose_8x8(__m256 r[kLanes]) {
  __m256 t[kLanes], u[kLanes];
  for (int64_t i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int64_t i = 0; i < 2; ++i) {
    const __m256* s = t + 4 * i;
    u[4 * i] = _mm256_shuffle_ps(s[0], s[2], 0x44);
    u[4 * i + 1] = _mm256_shuffle_ps(s[0], s[2], 0xEE);
    u[4 * i + 2] = _mm256_shuffle_ps(s[1], s[3], 0x44);
    u[4 * i + 3] = _mm256_shuffle_ps(s[1], s[3], 0xEE);
  }
  for (int64_t i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// Eight rows (the first `rows` exist, the others are 0) of `width` contiguous
// elements into columns of a panel: to[c * kPanel + row].
void pack_contiguous_rows(const float* from, int64_t row_step, int64_t rows,
                          int64_t width, float* to) {
  for (int64_t c = 0; c < width; c += kLanes) {
    const int64_t left = min_of(kLanes, width - c);
    __m256 r[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      r[i] = i < rows ? load_first(from + i * row_step + c, left)
                      : _mm256_setzero_ps();
    }
    transpose_8x8(r);
    for (int64_t i = 0; i < left; ++i) {
      _mm256_store_ps(to + (c + i) * kPanel, r[i]);
    }
  }
}

void pack_strided_rows(const float* from, int64_t row_step, int64_t step,
                       int64_t rows, int64_t width, float* to) {
  for (int64_t c = 0; c < width; ++c) {
    for (int64_t i = 0; i < kLanes; ++i) {
      to[c * kPanel + i] = i < rows ? from[i * row_step + c * step] : 0;
    }
  }
}

// K into panels [d, kPanel] of 16 keys; keys that do not exist are 0.
void pack_f32_keys(const FlashHead& head, float* to) {
  const float* const k = static_cast<const float*>(head.k);
  const int64_t padded = panels_of(head.keys) * kPanel;
  for (int64_t j = 0; j < padded; j += kLanes) {
    float* const half = to + (j / kPanel) * head.width * kPanel + j % kPanel;
    const int64_t rows = max_of(0, min_of(kLanes, head.keys - j));
    const float* const from = rows > 0 ? k + j * head.k_row : k;
    if (head.k_col == 1) {
      pack_contiguous_rows(from, head.k_row, rows, head.width, half);
    } else {
      pack_strided_rows(from, head.k_row, head.k_col, rows, head.width, half);
    }
  }
}

// The same from half storage, eight keys at a time by way of `stage`.
void pack_half_keys(const FlashHead& head, float* stage, float* to) {
  const uint16_t* const k = static_cast<const uint16_t*>(head.k);
  const int64_t padded = panels_of(head.keys) * kPanel;
  for (int64_t j = 0; j < padded; j += kLanes) {
    float* const half = to + (j / kPanel) * head.width * kPanel + j % kPanel;
    const int64_t rows = max_of(0, min_of(kLanes, head.keys - j));
    for (int64_t i = 0; i < rows; ++i) {
      head.widen(k + (j + i) * head.k_row, head.k_col, head.width,
                 stage + i * head.width);
    }
    pack_contiguous_rows(stage, head.width, rows, head.width, half);
  }
}

// Up to 16 contiguous elements, padded with 0.
void pack_value_run(const float* from, int64_t left, float* to) {
  _mm256_store_ps(to, load_first(from, left));
  _mm256_store_ps(to + kLanes, left > kLanes
                                   ? load_first(from + kLanes, left - kLanes)
                                   : _mm256_setzero_ps());
}

// V into panels [keys, kPanel] of 16 columns; missing columns are 0.
void pack_f32_values(const FlashHead& head, float* to) {
  const float* const v = static_cast<const float*>(head.v);
  for (int64_t c = 0; c < head.value_width; c += kPanel) {
    const int64_t left = min_of(kPanel, head.value_width - c);
    for (int64_t j = 0; j < head.keys; ++j, to += kPanel) {
      const float* const from = v + j * head.v_row + c * head.v_col;
      if (head.v_col == 1) {
        pack_value_run(from, left, to);
        continue;
      }
      for (int64_t i = 0; i < kPanel; ++i) {
        to[i] = i < left ? from[i * head.v_col] : 0;
      }
    }
  }
}

// The same from half storage, key by key by way of `stage`.
void pack_half_values(const FlashHead& head, float* stage, float* to) {
  const uint16_t* const v = static_cast<const uint16_t*>(head.v);
  for (int64_t j = 0; j < head.keys; ++j) {
    head.widen(v + j * head.v_row, head.v_col, head.value_width, stage);
    for (int64_t c = 0; c < head.value_width; c += kPanel) {
      pack_value_run(stage + c, min_of(kPanel, head.value_width - c),
                     to + c * head.keys + j * kPanel);
    }
  }
}

}  // namespace
}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_PACK_H_
