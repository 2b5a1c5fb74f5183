// SPDX-License-Identifier: Apache-2.0
// The border between merge.cpp, baseline code, and merge_rows.cpp, which may
// use AVX2 and FMA. Plain structs and pointers only.
#ifndef QKVET_IMPL_AVX2_MERGE_ROWS_H_
#define QKVET_IMPL_AVX2_MERGE_ROWS_H_

#include <stdint.h>

namespace qkvet::impl {

// Numbers that are processed together.
inline constexpr int64_t kMergeLanes = 8;

struct MergeWeights {
  float max;  // NaN if one of the lse is
  float sum;  // of the weights
};

// weights[n] = exp(lse[n] - max). Both have `padded` numbers, a multiple of
// kMergeLanes, and lse is -infinity after its states. If max is -infinity, all
// states are empty, and the weights are unspecified.
MergeWeights merge_weights(const float* lse, int64_t padded, float* weights);

// o[c] = sum_n weights[n] states[n][c] / sum, c < width; o may be a state.
void merge_values(const float* weights, const float* const* states,
                  int64_t count, int64_t width, float sum, float* o);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_MERGE_ROWS_H_
