// SPDX-License-Identifier: Apache-2.0
// controls/bias_before_scale: the bias joins the product before the scale does,
// as (q.k + bias / scale) * scale. The quotient is in double: a bias that
// nearly cancels q.k would else leave its rounding behind, which no knob
// declares.
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
  const double bias = row.terms.bias[n];
  const auto sum = static_cast<float>(double{dot} + bias / double{row.scale});
  const float s = sum * row.scale;
  return row.terms.slope != 0 ? s - row.terms.slope * row.distance(n) : s;
}

using BiasBeforeScale = TwoPass<dot_ascending, libm_exp,
                                /*kDescending=*/false, bias_first>;

// Of s = p + b: sum and product round in proportion to |s| each. The usual
// order allows one for the product p and one for s; what it may lack is one in
// proportion to the score itself.
constexpr double kOfTheScore = 1;

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
