// SPDX-License-Identifier: Apache-2.0
// Another arithmetic under the faults of caches, layers and pages: one pass
// over the keys from the last to the first, with a running maximum.
#ifndef QKVET_IMPL_PLAIN_ROW_H_
#define QKVET_IMPL_PLAIN_ROW_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/skeletons/row_skeleton.h"

namespace qkvet::impl {

struct PlainRow {
  static void row(const Row& row) {
    float max = -std::numeric_limits<float>::infinity();
    float sum = 0;
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] = 0;
    }
    for (int64_t j = row.keys - 1; j >= 0; --j) {
      const float* const k = row.k.row(j);
      const float* const v = row.v.row(j);
      float even = 0, odd = 0;
      for (int64_t c = 0; c < row.width; ++c) {
        (c % 2 == 0 ? even : odd) += row.q[c] * k[c * row.k.step];
      }
      const float score = (even + odd) * row.scale;
      const float next = std::fmax(max, score);
      const float factor = next == max ? 1 : std::exp(max - next);
      const float weight = std::exp(score - next);
      max = next;
      sum = sum * factor + weight;
      for (int64_t c = 0; c < row.value_width; ++c) {
        row.acc[c] = row.acc[c] * factor + weight * v[c * row.v.step];
      }
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.o[c * row.o_step] = row.acc[c] / sum;
    }
    row.write_lse(max + std::log(sum));
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_PLAIN_ROW_H_
