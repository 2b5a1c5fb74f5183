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

// For the keys [begin, end): score[j] = scale * q.k_j, dp[j] = d_o.v_j.
void gradient_products(const GradientRow& row, int64_t begin, int64_t end,
                       float* score, float* dp);
// score[j] becomes p, dp[j] becomes ds.
void gradient_weights(const GradientRow& row, int64_t begin, int64_t end,
                      float* score, float* dp);
// Adds p d_o to d_v, dz k to d_q and dz q to d_k.
void gradient_sums(const GradientRow& row, int64_t begin, int64_t end,
                   const float* p, const float* dz);

// The same for four rows at once, beginning with `first`: q, d_o and d_q of the
// others follow its own, and their scores are `stride` apart. The bits are
// those of the rows one by one; k, v, d_k and d_v are read once.
inline constexpr int64_t kRowsAtOnce = 4;
void gradient_products_of_four(const GradientRow& first, int64_t begin,
                               int64_t end, int64_t stride, float* score,
                               float* dp);
void gradient_sums_of_four(const GradientRow& first, int64_t begin, int64_t end,
                           int64_t stride, const float* p, const float* dz);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_GRADIENT_ROWS_H_
