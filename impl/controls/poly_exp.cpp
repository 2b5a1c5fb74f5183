// SPDX-License-Identifier: Apache-2.0
// controls/poly_exp: the plain order of everything, with the exp of poly_exp.h.
#include "impl/controls/poly_exp.h"

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

using PolyExp = TwoPass<dot_ascending, poly_exp>;

// Measured: 3.06 units (poly_exp.h).
constexpr double kPolyExpError = 3.25 * kUnit;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.exp_error = kPolyExpError;
  p.exp_floor = kClampedExpFloor;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_poly_exp =
    plain_kernel("controls/poly_exp", "exp by a polynomial of degree 5",
                 {"impl/controls/poly_exp.cpp", __LINE__}, &kPrecision,
                 kRowForward<PolyExp>, &kAllCapabilities);

}  // namespace qkvet::impl
