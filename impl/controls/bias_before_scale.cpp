// SPDX-License-Identifier: Apache-2.0
// controls/bias_before_scale: the bias joins the product before the scale does,
// as (q.k + bias / scale) * scale.
#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

// A scale whose quotient could overflow or lose digits: the usual order then.
constexpr float kLeastScale = 0x1p-60f;

float bias_first(const Row& row, float dot, int64_t n) {
  const bool divides = row.terms.bias != nullptr && row.terms.softcap == 0 &&
                       std::fabs(row.scale) >= kLeastScale;
  if (!divides) {
    return usual_score(row, dot, n);
  }
  const float s = (dot + row.terms.bias[n] / row.scale) * row.scale;
  return row.terms.slope != 0 ? s - row.terms.slope * row.distance(n) : s;
}

using BiasBeforeScale = TwoPass<dot_ascending, libm_exp,
                                /*kDescending=*/false, bias_first>;

// With s = p + b: the quotient rounds in proportion to |b| <= |s| + |p|, sum
// and product to |s|. One in proportion to |p| and one to |s| are those of the
// usual order; what is left are two of the score itself.
constexpr double kOfTheScore = 2;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.ref_roundings = kOfTheScore;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_bias_before_scale =
    plain_kernel("controls/bias_before_scale", "(q.k + bias / scale) * scale",
                 {"impl/controls/bias_before_scale.cpp", __LINE__}, &kPrecision,
                 kRowForward<BiasBeforeScale>, &kAllCapabilities);

}  // namespace qkvet::impl
