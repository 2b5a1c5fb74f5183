// SPDX-License-Identifier: Apache-2.0
// twelve_lines.cpp with its mask in the wrong place: hidden keys are set to 0
// behind the softmax, when the row has been divided by a sum that counts them.
#include <algorithm>
#include <cmath>
#include <vector>

#include "qkvet/plain.h"

static void attend(const float* q, const float* k, const float* v, float* o,
                   int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                   int causal) {
  std::vector<float> s(Tk);
  for (int64_t n = 0; n < B * H; ++n, k += Tk * d, v += Tk * d)
    for (int64_t i = 0; i < Tq; ++i, q += d, o += d) {
      float max = -INFINITY, sum = 0;
      for (int64_t j = 0; j < Tk; ++j) {
        s[j] = 0;
        for (int64_t c = 0; c < d; ++c) s[j] += q[c] * k[j * d + c];
        s[j] /= std::sqrt(float(d));
        max = std::max(max, s[j]);
      }
      for (float& w : s) sum += w = std::exp(w - max);
      for (int64_t j = 0; j < Tk; ++j)
        if (causal && j > i + Tk - Tq) s[j] = 0;
      std::fill(o, o + d, 0.0f);
      for (int64_t j = 0; j < Tk; ++j)
        for (int64_t c = 0; c < d; ++c) o[c] += s[j] / sum * v[j * d + c];
    }
}

QKVET_PLAIN_KERNEL(attend, "twelve_lines_broken/attend");
