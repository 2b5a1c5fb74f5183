// SPDX-License-Identifier: Apache-2.0
// Masked loads and sums of floats, for translation units compiled with AVX2:
// everything has internal linkage.
#ifndef QKVET_IMPL_AVX2_LANES_H_
#define QKVET_IMPL_AVX2_LANES_H_

#include <immintrin.h>
#include <stdint.h>

namespace qkvet::impl {
namespace {

constexpr int kLanes = 8;
alignas(32) constexpr int32_t kMaskTable[2 * kLanes] = {
    -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

// The first `n` lanes, 0 <= n <= 8.
inline __m256i first_lanes(int64_t n) {
  return _mm256_loadu_si256(
      reinterpret_cast<const __m256i*>(kMaskTable + kLanes - n));
}

// Up to 8 elements from p; 0 in the lanes beyond n.
inline __m256 load_first(const float* p, int64_t n) {
  if (n >= kLanes) {
    return _mm256_loadu_ps(p);
  }
  return n <= 0 ? _mm256_setzero_ps() : _mm256_maskload_ps(p, first_lanes(n));
}

// All lanes as a tree.
inline float sum_of_lanes(__m256 x) {
  const __m128 four =
      _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float max_of_lanes(__m256 x) {
  const __m128 four =
      _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

}  // namespace
}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_LANES_H_
