// SPDX-License-Identifier: Apache-2.0
// The plainest arithmetic of a row with every option, in two passes over its
// keys: scores and their maximum; then exponentials, their sum and the weighted
// values. Every sum is sequential and ascending, with the sink first, products
// are rounded, o is divided once at the end: sequential_f32() of declare.h is
// its declaration.
#ifndef QKVET_IMPL_SKELETONS_PLAIN_ROW_H_
#define QKVET_IMPL_SKELETONS_PLAIN_ROW_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/skeletons/row_skeleton.h"

namespace qkvet::impl {

struct PlainRow {
  static void row(const Row& row) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float max = row.terms.sink;
    for (int64_t j = 0; j < row.keys; ++j) {
      const float* const k = row.k.row(j);
      float dot = 0;
      for (int64_t c = 0; c < row.width; ++c) {
        dot += row.q[c] * k[c * row.k.step];
      }
      row.scores[j] = row.score(dot * row.scale, j);
      max = std::fmax(max, row.scores[j]);
    }
    float sum = row.terms.sink > kNone ? std::exp(row.terms.sink - max) : 0;
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] = 0;
    }
    for (int64_t j = 0; j < row.keys; ++j) {
      const float* const v = row.v.row(j);
      const float weight = std::exp(row.scores[j] - max);
      sum += weight;
      for (int64_t c = 0; c < row.value_width; ++c) {
        row.acc[c] += weight * v[c * row.v.step];
      }
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.o[c * row.o_step] = row.acc[c] / sum;
    }
    row.write_lse(max + std::log(sum));
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_PLAIN_ROW_H_
