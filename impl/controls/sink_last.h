// SPDX-License-Identifier: Apache-2.0
// A softmax over the keys alone, which meets the sink at its end as if that
// were a second part: a maximum, a weight of 1 and no values.
#ifndef QKVET_IMPL_CONTROLS_SINK_LAST_H_
#define QKVET_IMPL_CONTROLS_SINK_LAST_H_

#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {

template <bool kSinkInLse>
struct SinkLast {
  static void row(const Row& row) {
    const float max = score_keys<dot_ascending>(row, -kInfinity);
    float sum = 0;
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float weight = std::exp(row.scores[j] - max);
      sum += weight;
      add_weighted(weight, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    Denominator all = {max, sum};
    if (row.terms.sink > -kInfinity) {
      all.max = std::fmax(max, row.terms.sink);
      const float factor = std::exp(max - all.max);
      all.sum = factor * sum + std::exp(row.terms.sink - all.max);
      for (int64_t c = 0; c < row.value_width; ++c) {
        row.acc[c] *= factor;
      }
    }
    write_quotient(row, row.acc, all.sum);
    row.write_lse(kSinkInLse ? all.lse() : Denominator{max, sum}.lse());
  }
};

// Two parts that are merged as (max, sum, o): the keys, and the sink.
inline constexpr qkvet_precision kSinkLastPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.splits = 2;
  p.merge = QKVET_MERGE_MLO;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_SINK_LAST_H_
