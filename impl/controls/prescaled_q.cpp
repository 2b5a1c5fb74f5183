// SPDX-License-Identifier: Apache-2.0
// controls/prescaled_q: q is multiplied by scale * log2(e) before the dot
// product, so that the exponentials are exp2(s - m) with nothing left to scale.
#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

// dot_ascending of q * factor.
float scaled_dot(const float* q, float factor, const float* k, int64_t step,
                 int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; ++c) {
    sum += (q[c] * factor) * k[c * step];
  }
  return sum;
}

struct PrescaledQ {
  static void row(const Row& row) {
    const float factor = row.scale * kLog2E;
    float max = -kInfinity;
    for (int64_t j = 0; j < row.keys; ++j) {
      row.scores[j] =
          scaled_dot(row.q, factor, row.k.row(j), row.k.step, row.width);
      max = std::fmax(max, row.scores[j]);
    }
    float sum = 0;
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float weight = std::exp2(row.scores[j] - max);
      sum += weight;
      add_weighted(weight, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(max * kLn2 + std::log(sum));
  }
};

// The factor is off by 1.23 units (log2(e) 0.23, its product with the scale 1),
// the same for all scores, hence in proportion to the difference s - m, which
// rounds once itself: 2.23. Its product with q is what SCALE_ON_Q says.
constexpr double kPrescaledArgRoundings = 2.3;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.scale_stage = QKVET_SCALE_ON_Q;
  p.arg_roundings = kPrescaledArgRoundings;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_prescaled_q = plain_kernel(
    "controls/prescaled_q", "scale and log2(e) on q before the dot product",
    {"impl/controls/prescaled_q.cpp", __LINE__}, &kPrecision,
    kRowForward<PrescaledQ>, &kPairCapabilities);

}  // namespace qkvet::impl
