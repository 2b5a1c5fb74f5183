// SPDX-License-Identifier: Apache-2.0
// controls/pairwise: every sum by recursive halves, and the output as P v times
// the reciprocal of the denominator.
#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

// Terms [first, first + n), n >= 1: additions nest ceil(log2 n) deep.
template <class Term>
float sum_by_halves(int64_t first, int64_t n, const Term& term) {
  if (n == 1) {
    return term(first);
  }
  const int64_t half = n / 2;
  return sum_by_halves(first, half, term) +
         sum_by_halves(first + half, n - half, term);
}

float dot_by_halves(const float* q, const float* k, int64_t step, int64_t n) {
  return sum_by_halves(0, n, [&](int64_t c) { return q[c] * k[c * step]; });
}

struct Pairwise {
  static void row(const Row& row) {
    const float max = score_keys<dot_by_halves>(row, row.terms.sink);
    for (int64_t j = 0; j < row.keys; ++j) {
      row.scores[j] = std::exp(row.scores[j] - max);
    }
    // A sink is one more term, behind the keys.
    const int64_t terms = row.keys + (row.terms.sink > -kInfinity ? 1 : 0);
    const float sum = sum_by_halves(0, terms, [&](int64_t j) {
      return j < row.keys ? row.scores[j] : std::exp(row.terms.sink - max);
    });
    const float inverse = 1 / sum;
    for (int64_t c = 0; c < row.value_width; ++c) {
      const float value = sum_by_halves(0, row.keys, [&](int64_t j) {
        return row.scores[j] * row.v.row(j)[c * row.v.step];
      });
      row.o[c * row.o_step] = value * inverse;
    }
    row.write_lse(max + std::log(sum));
  }
};

// 1 / sum rounds, and so does the product with it: 2.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_sum = QKVET_SUM_PAIRWISE;
  p.dot_lanes = 0;
  p.value_sum = QKVET_SUM_PAIRWISE;
  p.norm_roundings = kNormReciprocal;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_pairwise = plain_kernel(
    "controls/pairwise", "sums by recursive halves, reciprocal times value",
    {"impl/controls/pairwise.cpp", __LINE__}, &kPrecision,
    kRowForward<Pairwise>, &kAllCapabilities);

}  // namespace qkvet::impl
