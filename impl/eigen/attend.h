// SPDX-License-Identifier: Apache-2.0
// Attention as three matrix expressions, in blocks of query rows.
//
//   S = Q K^T * scale,  W = exp(S - row maximum),  O = W V / row sum
//
// Strided maps read f32 in place; half storage is converted first. Eigen's
// vector exp(-inf) is 2.9e-39, not 0, so masked scores never go through exp as
// -inf: every row takes the exponential of its visible prefix only, and the
// product with V stops where the rows of a block begin to differ; the rest of
// each row is added on its own. So masked keys cannot change even the sign of a
// zero.
//
// A call with options takes the product with K in the same blocks, and then
// gathers the visible keys' scores row by row; the product with V takes the
// runs of adjacent keys among them.
//
// Cost: 2 (d + dv) flops a pair up to the last key that a block sees; memory
// for kRowBlock * Tk scores.
//
// Contract: any strides, addresses aligned to elements; NaN in a visible key or
// value makes its rows NaN. Baseline instruction set, see README.md.
#ifndef QKVET_IMPL_EIGEN_ATTEND_H_
#define QKVET_IMPL_EIGEN_ATTEND_H_

#include "impl/call/declare.h"
#include "impl/call/forward_view.h"

namespace qkvet::impl {

// A call with f32 views and without lengths.
qkvet_status attend_with_eigen(const ForwardCall& call, qkvet_text* why);

// Eigen's order of summation is unspecified. Its vector exp, measured over the
// floats in [-87.3, 0] (eigen_exp_test.cpp): 1.99 units of 2^-24; further down
// it never falls below 2.94e-39 = 2^-128.
inline constexpr double kEigenExpError = 2.2 * kUnit;
inline constexpr double kEigenExpFloor = 0x1p-127;

inline constexpr qkvet_precision kEigenPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_sum = QKVET_SUM_ANY;
  p.dot_lanes = 0;
  p.value_sum = QKVET_SUM_ANY;
  p.exp_error = kEigenExpError;
  p.exp_floor = kEigenExpFloor;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_EIGEN_ATTEND_H_
