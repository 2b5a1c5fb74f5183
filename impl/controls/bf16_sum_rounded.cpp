// SPDX-License-Identifier: Apache-2.0
// controls/bf16_sum_rounded: exponentials are rounded to bf16 before anything
// is done with them, so that the denominator adds what P v is made of.
#include "impl/controls/rounded_p.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

// Rounded once, relative to the maximum of the row; the sums are those of the
// plain declaration.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.declared |= QKVET_KNOB_P_DTYPE;
  p.p_dtype = kBf16;
  p.sum_of_rounded_p = 1;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_bf16_sum_rounded =
    plain_kernel("controls/bf16_sum_rounded",
                 "P rounded to bf16, denominator from rounded P",
                 {"impl/controls/bf16_sum_rounded.cpp", __LINE__}, &kPrecision,
                 kRowForward<SumOfRoundedP>, &kBf16Capabilities);

}  // namespace qkvet::impl
