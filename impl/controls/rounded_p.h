// SPDX-License-Identifier: Apache-2.0
// Softmax in passes over the keys, P rounded to the storage type on the way,
// and the kernels of one half storage type that do so. Sums are sequential and
// ascending, in f32; a sink is no P and is not rounded.
#ifndef QKVET_IMPL_CONTROLS_ROUNDED_P_H_
#define QKVET_IMPL_CONTROLS_ROUNDED_P_H_

#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/half.h"
#include "impl/row_frame.h"

namespace qkvet::impl {

// P = round(exp(s - m)); o = sum P v / sum P.
struct SumOfRoundedP {
  static void row(const Row& row) {
    const float max = score_keys<dot_ascending>(row, row.terms.sink);
    float sum = std::exp(row.terms.sink - max);
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float p = round_to(row.storage, std::exp(row.scores[j] - max));
      sum += p;
      add_weighted(p, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(max + std::log(sum));
  }
};

// w = exp(s - m); P = round(w / sum w); o = sum P v.
struct NormalisedP {
  static void row(const Row& row) {
    const float max = score_keys<dot_ascending>(row, row.terms.sink);
    float sum = std::exp(row.terms.sink - max);
    for (int64_t j = 0; j < row.keys; ++j) {
      row.scores[j] = std::exp(row.scores[j] - max);
      sum += row.scores[j];
    }
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float p = round_to(row.storage, row.scores[j] / sum);
      add_weighted(p, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.o[c * row.o_step] = row.acc[c];
    }
    row.write_lse(max + std::log(sum));
  }
};

template <Storage kType>
inline constexpr const qkvet_capabilities* kOneHalf =
    kType == Storage::kF16 ? &kAllF16Capabilities : &kAllBf16Capabilities;

// Rounded once, relative to the maximum of the row; the sums are those of the
// plain declaration.
template <Storage kType>
inline constexpr qkvet_precision kSumOfRoundedP = [] {
  qkvet_precision p = sequential_f32();
  p.declared |= QKVET_KNOB_P_DTYPE;
  p.p_dtype = dtype_named(kType);
  p.sum_of_rounded_p = 1;
  return p;
}();

// One division a weight, then its rounding. The denominator adds unrounded
// exponentials.
template <Storage kType>
inline constexpr qkvet_precision kNormalisedP = [] {
  qkvet_precision p = sequential_f32();
  p.declared |= QKVET_KNOB_P_DTYPE;
  p.norm_first = 1;
  p.p_dtype = dtype_named(kType);
  p.p_normalised = 1;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_ROUNDED_P_H_
