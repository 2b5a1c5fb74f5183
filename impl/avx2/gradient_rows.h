// SPDX-License-Identifier: Apache-2.0
// The border between gradient.cpp, baseline code, and gradient_rows.cpp, which
// may use AVX2 and FMA. Plain structs and pointers only.
#ifndef QKVET_IMPL_AVX2_GRADIENT_ROWS_H_
#define QKVET_IMPL_AVX2_GRADIENT_ROWS_H_

#include <stdint.h>

namespace qkvet::impl {

// One row of queries against the keys [0, Tk) of a head; contiguous f32.
struct GradientRow {
  const float* q;    // [d]
  const float* d_o;  // [dv]
  const float* k;    // [Tk, d]
  const float* v;    // [Tk, dv]
  float* d_q;        // [d]
  float* d_k;        // [Tk, d]
  float* d_v;        // [Tk, dv]
  int64_t width;     // d
  int64_t value_width;
  float scale;
  float lse;
  float delta;
};

// Of keys [begin, end): score[j] = scale * q.k_j, dp[j] = d_o.v_j.
void gradient_products(const GradientRow& row, int64_t begin, int64_t end,
                       float* score, float* dp);
// score[j] becomes p, dp[j] becomes ds.
void gradient_weights(const GradientRow& row, int64_t begin, int64_t end,
                      float* score, float* dp);
// Adds p d_o to d_v, dz k to d_q and dz q to d_k.
void gradient_sums(const GradientRow& row, int64_t begin, int64_t end,
                   const float* p, const float* dz);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_GRADIENT_ROWS_H_
