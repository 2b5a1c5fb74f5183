// SPDX-License-Identifier: Apache-2.0
// controls/bf16_p_normalised: weights are divided by their sum, rounded to
// bf16, and then meet the values.
#include "impl/controls/rounded_p.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

// One division a weight, then its rounding to bf16. The denominator adds
// unrounded exponentials.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.declared |= QKVET_KNOB_P_DTYPE;
  p.norm_first = 1;
  p.p_dtype = kBf16;
  p.p_normalised = 1;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_bf16_p_normalised = plain_kernel(
    "controls/bf16_p_normalised", "P normalised, then rounded to bf16",
    {"impl/controls/bf16_p_normalised.cpp", __LINE__}, &kPrecision,
    kRowForward<NormalisedP>, &kBf16Capabilities);

}  // namespace qkvet::impl
