// SPDX-License-Identifier: Apache-2.0
// exp of eight floats that are not positive, for translation units compiled
// with AVX2 and FMA. No type or template of the standard library in here: its
// code would be shared with translation units of the baseline.
//
//   n = round(x / ln 2),  r = x - n ln 2 in two parts (Cody and Waite),
//   exp(x) = 2^n (1 + r + r^2 P(r)),  P of degree 4, minimax in relative error
//   on |r| <= ln 2 / 2 (the exact polynomial is off by 0.064 units of 2^-24)
//
// Rules: exp(0) = 1 exactly; below -87, and at -inf, the result is +0, so that
// 2^n is always normal; NaN gives NaN. 14 instructions.
//
// Error: 1.293 units of 2^-24, measured against double exp over all floats in
// [-87, 0] (avx2_exp_test.cpp repeats a dense sweep).
#ifndef QKVET_IMPL_AVX2_EXP_H_
#define QKVET_IMPL_AVX2_EXP_H_

#include <immintrin.h>

namespace qkvet::impl {
namespace {

inline __m256 exp_nonpositive(__m256 x) {
  const __m256 log2e = _mm256_set1_ps(0x1.715476p0f);
  // Adding it leaves round(x log2e) + 127 in the low bits of the sum: the
  // biased exponent of 2^n.
  const __m256 to_integer = _mm256_set1_ps(0x1.8p23f + 127);
  const __m256 ln2_high = _mm256_set1_ps(0x1.62e43p-1f);
  const __m256 ln2_low = _mm256_set1_ps(-0x1.05c61p-29f);
  const __m256 lowest = _mm256_set1_ps(-87.0f);

  const __m256 biased = _mm256_fmadd_ps(x, log2e, to_integer);
  const __m256 n = _mm256_sub_ps(biased, to_integer);
  __m256 r = _mm256_fnmadd_ps(n, ln2_high, x);
  r = _mm256_fnmadd_ps(n, ln2_low, r);

  const __m256 one = _mm256_set1_ps(1);
  __m256 p = _mm256_set1_ps(0x1.6b6c72p-10f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.12324cp-7f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.55568ep-5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5554a0p-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, one);
  p = _mm256_fmadd_ps(p, r, one);

  // A product, not an addition of exponents: a NaN stays NaN with any payload
  // in the low bits.
  const __m256 power =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(biased), 23));
  const __m256 y = _mm256_mul_ps(p, power);
  return _mm256_andnot_ps(_mm256_cmp_ps(x, lowest, _CMP_LT_OQ), y);
}

}  // namespace
}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_EXP_H_
