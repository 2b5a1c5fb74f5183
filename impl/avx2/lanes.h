// SPDX-License-Identifier: Apache-2.0
// Masked loads of floats, for translation units compiled with AVX2: everything
// has internal linkage.
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

}  // namespace
}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_LANES_H_
