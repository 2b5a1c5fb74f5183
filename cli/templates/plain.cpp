// SPDX-License-Identifier: Apache-2.0
// Attention over contiguous f32: o = softmax(q k^T / sqrt(d)) v.
//
//   q, o  [B, H, Tq, d]
//   k, v  [B, H, Tk, d]
//
// causal: row i sees the keys j <= i + Tk - Tq. qkvet/plain.h has the rest.
#include "qkvet/plain.h"

#include <algorithm>
#include <cmath>
#include <vector>

static void attention(const float* q, const float* k, const float* v, float* o,
                      int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                      int causal) {
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  std::vector<float> p(Tk);  // one row of scores, then of weights
  for (int64_t head = 0; head < B * H; ++head) {
    const float* keys = k + head * Tk * d;    // [Tk, d]
    const float* values = v + head * Tk * d;  // [Tk, d]
    for (int64_t i = 0; i < Tq; ++i) {
      const float* row = q + (head * Tq + i) * d;  // [d]
      float* out = o + (head * Tq + i) * d;        // [d]
      const int64_t seen = causal ? std::max<int64_t>(0, i + Tk - Tq + 1) : Tk;
      // ---- Yours from here: replace this loop by your own kernel.
      float max = -INFINITY, sum = 0;
      for (int64_t j = 0; j < seen; ++j) {
        p[j] = 0;
        for (int64_t c = 0; c < d; ++c) p[j] += row[c] * keys[j * d + c];
        p[j] *= scale;
        max = std::max(max, p[j]);
      }
      for (int64_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - max);
      for (int64_t c = 0; c < d; ++c) {
        out[c] = 0;
        for (int64_t j = 0; j < seen; ++j)
          out[c] += p[j] / sum * values[j * d + c];
      }
      // ---- to here.
    }
  }
}

QKVET_PLAIN_KERNEL(attention, "mine/attention");
