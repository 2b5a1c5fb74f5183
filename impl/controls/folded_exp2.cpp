// SPDX-License-Identifier: Apache-2.0
// controls/folded_exp2: the scale and log2(e) folded into the one multiply-add
// in front of exp2, as GPU kernels do it:
//
//   c = scale * log2(e),  w_j = exp2(fma(q.k_j, c, -(m * c))),  m = max q.k
//
// The maximum is known before the first exponential, so the rounding of m * c
// is the same for all keys and leaves the weights alone.
//
// A bias b enters the same multiply-add, as b_j * log2(e):
//
//   t_j = fma(q.k_j, c, b_j * log2(e)),  w_j = exp2(t_j - max t)
#include <cmath>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

struct FoldedExp2 {
  static void row(const Row& row) {
    if (row.terms.bias != nullptr) {
      biased_row(row);
      return;
    }
    const float factor = row.scale * kLog2E;
    // A negative scale turns the smallest product into the largest score.
    const bool negative = factor < 0;
    float extreme = negative ? kInfinity : -kInfinity;
    for (int64_t j = 0; j < row.keys; ++j) {
      const float dot =
          dot_ascending(row.q, row.k.row(j), row.k.step, row.width);
      row.scores[j] = dot;
      extreme = negative ? std::fmin(extreme, dot) : std::fmax(extreme, dot);
    }
    const float shift = extreme * factor;
    float sum = 0;
    fill(row.acc, row.value_width, 0);
    for (int64_t j = 0; j < row.keys; ++j) {
      const float weight = std::exp2(std::fma(row.scores[j], factor, -shift));
      sum += weight;
      add_weighted(weight, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(extreme * row.scale + std::log(sum));
  }

  static void biased_row(const Row& row) {
    const float factor = row.scale * kLog2E;
    float max = -kInfinity;
    for (int64_t j = 0; j < row.keys; ++j) {
      const float dot =
          dot_ascending(row.q, row.k.row(j), row.k.step, row.width);
      row.scores[j] = std::fma(dot, factor, row.terms.bias[j] * kLog2E);
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

// In proportion to the distance from the maximum, in units of 2^-24: the float
// log2(e) 0.23, its product with the scale 1, the multiply-add 1. Together
// 2.23; a second-order term of u |m| more is what 2.3 and the slack in the
// error of exp2 (1.004 of 1.01) leave room for, up to |m| = 1e5.
constexpr double kFoldedArgRoundings = 2.3;

constexpr qkvet_capabilities kCapabilities = capabilities_with(
    kCommonOptions | kPairOptions | QKVET_OPTION_BIAS, {kF32, kF16, kBf16});

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.scale_stage = QKVET_SCALE_FOLDED;
  p.arg_roundings = kFoldedArgRoundings;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_folded_exp2 = plain_kernel(
    "controls/folded_exp2", "exp2 with the scale folded into its multiply-add",
    {"impl/controls/folded_exp2.cpp", __LINE__}, &kPrecision,
    kRowForward<FoldedExp2>, &kCapabilities);

}  // namespace qkvet::impl
