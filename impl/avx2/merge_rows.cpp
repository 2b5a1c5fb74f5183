// SPDX-License-Identifier: Apache-2.0
// One row of a merge on AVX2 and FMA: the exponentials eight states at a time,
// the values eight channels at a time.
//
// Arithmetic: exp as in exp.h; the weights are added in eight lanes, lane n %
// 8, and these as a tree; every channel is one FMA chain over the states,
// ascending, and divided last.
//
// Contract: no byte outside of the rows (tails by masked loads and stores), any
// address aligned to elements.
#include "impl/avx2/merge_rows.h"

#include <immintrin.h>
#include <stdint.h>

#include "impl/avx2/exp.h"
#include "impl/avx2/lanes.h"

namespace qkvet::impl {
static_assert(kMergeLanes == kLanes);

MergeWeights merge_weights(const float* lse, int64_t padded, float* weights) {
  __m256 max = _mm256_set1_ps(-__builtin_inff());
  __m256 nan = _mm256_setzero_ps();
  for (int64_t n = 0; n < padded; n += kLanes) {
    const __m256 x = _mm256_loadu_ps(lse + n);
    nan = _mm256_or_ps(nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    max = _mm256_max_ps(x, max);
  }
  const float most =
      _mm256_movemask_ps(nan) != 0 ? __builtin_nanf("") : max_of_lanes(max);
  const __m256 reference = _mm256_set1_ps(most);
  __m256 sum = _mm256_setzero_ps();
  for (int64_t n = 0; n < padded; n += kLanes) {
    const __m256 weight =
        exp_nonpositive(_mm256_sub_ps(_mm256_loadu_ps(lse + n), reference));
    _mm256_storeu_ps(weights + n, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  return {most, sum_of_lanes(sum)};
}

void merge_values(const float* weights, const float* const* states,
                  int64_t count, int64_t width, float sum, float* o) {
  const __m256 divisor = _mm256_set1_ps(sum);
  for (int64_t c = 0; c < width; c += kLanes) {
    const int64_t left = width - c;
    __m256 acc = _mm256_setzero_ps();
    for (int64_t n = 0; n < count; ++n) {
      acc = _mm256_fmadd_ps(_mm256_set1_ps(weights[n]),
                            load_first(states[n] + c, left), acc);
    }
    const __m256 value = _mm256_div_ps(acc, divisor);
    if (left >= kLanes) {
      _mm256_storeu_ps(o + c, value);
    } else {
      _mm256_maskstore_ps(o + c, first_lanes(left), value);
    }
  }
}

}  // namespace qkvet::impl
