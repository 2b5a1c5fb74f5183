// SPDX-License-Identifier: Apache-2.0
// The declarations that a careful author would make for an arithmetic:
// precision, dialect and capabilities, derived from its row. Units are 2^-24.
#ifndef QKVET_IMPL_CONTROLS_DECLARED_H_
#define QKVET_IMPL_CONTROLS_DECLARED_H_

#include <cstdint>

#include "impl/call/declare.h"
#include "impl/controls/arithmetic.h"

namespace qkvet::impl {

// Below 8 ln 2 = 5.5451..., a factor of 2^8: the lag is computed with a
// rounding of its own.
inline constexpr float kLag = 5.5f;
inline constexpr double kDeclaredLag = 5.545177444479562;

// exp2((s - m) * log2(e)): the difference 1, the float log2(e) 0.23, the
// product 1. As much for q * (scale * log2(e)): log2(e), its product with the
// scale, the difference; SCALE_ON_Q covers the product with q.
inline constexpr double kExp2ArgRoundings = 2.3;
// fma(q.k, c, -(m * c)), c = scale * log2(e): the error of c is 1.23, the same
// for all scores, so it is proportional to the distance from the maximum; the
// multiply-add rounds 1: 2.23. The rest of 2.3 and the slack in the error of
// exp2 (1.004 of 1.01) cover a second-order term of u |m|, up to |m| = 1e5. In
// a rescaled tile, the difference and the product of (old - new) * c round 2,
// and c has the same error: 3.23. The rounding of m * c then differs between
// tiles: 1 relative to the scores.
inline constexpr double kFoldedArgRoundings = 2.3;
inline constexpr double kFoldedTilesArgRoundings = 3.3;
inline constexpr double kFoldedTilesRefRoundings = 1;
// (q.k + bias / scale) * scale, s = p + b: sum and product each round relative
// to |s|. The usual order allows one rounding for the product p and one for s;
// one relative to the score itself may be missing.
inline constexpr double kBiasFirstRefRoundings = 1;
// Measured: 3.06 (poly_exp.h).
inline constexpr double kPolynomialExpError = 3.25 * kUnit;

// The unit roundoff of f16.
inline constexpr double kUnitF16 = 0x1p-11;
// Measured: 7.50e-5.
inline constexpr double kCoarseExpError = 7.6e-5;
// Measured: 4.42e-4.
inline constexpr double kCoarseLogError = 4.5e-4;
// (1 - e) / (1 + e): an error of eps e in e <= 1 becomes at most eps / 2, at 0;
// two sums and a quotient of numbers below 2 also round.
inline constexpr double kCoarseTanhFloor = kCoarseExpError / 2 + 2 * kUnit;
inline constexpr double kCoarseTanhError = 8 * kUnit;
// tanhf and the rounding to f16, which underflows below 2^-14.
inline constexpr double kF16TanhError = kUnitF16 + 4 * kUnit;
inline constexpr double kF16TanhFloor = 0x1p-25;

constexpr void declare_exp(const Arithmetic& a, qkvet_precision* p) {
  const bool several = a.tile > 0 || a.parts > 1;
  switch (a.exp) {
    case Exp::kNatural:
      break;
    case Exp::kPolynomial:
      p->exp_error = kPolynomialExpError;
      p->exp_floor = kClampedExpFloor;
      break;
    case Exp::kCoarse:
      p->exp_error = kCoarseExpError;
      p->exp_floor = kClampedExpFloor;
      p->exp_inexact_at_zero = 1;
      break;
    case Exp::kBase2:
      p->arg_roundings = kExp2ArgRoundings;
      break;
    case Exp::kPrescaled:
      p->arg_roundings = kExp2ArgRoundings;
      p->scale_stage = QKVET_SCALE_ON_Q;
      break;
    case Exp::kFolded:
      p->arg_roundings =
          several ? kFoldedTilesArgRoundings : kFoldedArgRoundings;
      p->ref_roundings = several ? kFoldedTilesRefRoundings : 0;
      p->scale_stage = QKVET_SCALE_FOLDED;
      break;
  }
  // expf ends where f32 becomes subnormal: off by at most 2^-126.
  if (a.ftz) {
    p->exp_floor = kClampedExpFloor;
  }
}

constexpr void declare_rounding(Storage type, uint64_t knob,
                                qkvet_dtype qkvet_precision::*field,
                                qkvet_precision* p) {
  if (type != Storage::kF32) {
    p->declared |= knob;
    p->*field = dtype_named(type);
  }
}

// Intermediates that are rounded to half in any storage.
constexpr void declare_roundings(const Arithmetic& a, qkvet_precision* p) {
  declare_rounding(a.scores, QKVET_KNOB_SCORE_DTYPE,
                   &qkvet_precision::score_dtype, p);
  declare_rounding(a.operands, QKVET_KNOB_OPERAND_DTYPE,
                   &qkvet_precision::operand_dtype, p);
  declare_rounding(a.lse, QKVET_KNOB_LSE_DTYPE, &qkvet_precision::lse_dtype, p);
  declare_rounding(a.sinks, QKVET_KNOB_SINK_DTYPE, &qkvet_precision::sink_dtype,
                   p);
  if (a.softmax != Storage::kF32) {
    // One type covers all of this. The stored exponential has the preset's
    // error in units of this type; a declared number would be in units of f32.
    declare_rounding(a.softmax, QKVET_KNOB_SOFTMAX_DTYPE,
                     &qkvet_precision::softmax_dtype, p);
    p->declared &= ~(QKVET_KNOB_SCORE_DTYPE | QKVET_KNOB_SINK_DTYPE |
                     QKVET_KNOB_EXP_ERROR);
  }
  declare_rounding(a.dot_sums, QKVET_KNOB_DOT_SUM_DTYPE,
                   &qkvet_precision::dot_sum_dtype, p);
  declare_rounding(a.value_sums, QKVET_KNOB_VALUE_SUM_DTYPE,
                   &qkvet_precision::value_sum_dtype, p);
  if (a.totals == Storage::kF16) {
    p->accumulator_u = kUnitF16;
  }
  if (a.scaled_q) {
    p->scale_stage = QKVET_SCALE_ON_Q;
  }
}

// Two roots and their products fit no declared stage of the scale, so the stage
// stays undeclared.
constexpr void declare_roots(const Arithmetic& a, qkvet_precision* p) {
  if (a.root_scale) {
    p->preset = QKVET_PRECISION_GENERIC;
    p->declared &= ~QKVET_KNOB_SCALE_STAGE;
    p->declared |= QKVET_KNOB_P_DTYPE;
  }
}

constexpr void declare_options(const Arithmetic& a, qkvet_precision* p) {
  if (a.bias == Bias::kFirstInDouble) {
    p->ref_roundings = kBiasFirstRefRoundings;
  }
  // The order of scores, bias and ALiBi is unusual. A declaration allows this
  // if its scale is not applied after the dot product.
  const bool own_order = a.bias == Bias::kFirst ||
                         a.alibi == Alibi::kDifference ||
                         a.alibi == Alibi::kShift;
  if (own_order && p->scale_stage == QKVET_SCALE_AFTER_DOT) {
    p->scale_stage = QKVET_SCALE_ON_Q;
  }
  // tanh computed from an exponential has an absolute error near 0; on a CPU
  // only the generic preset allows that; all other knobs are declared.
  if (a.tanh == Tanh::kByExp) {
    p->preset = QKVET_PRECISION_GENERIC;
    p->declared |= QKVET_KNOB_P_DTYPE;
  }
}

// Functions that are worse than those of f32.
constexpr void declare_functions(const Arithmetic& a, qkvet_precision* p) {
  if (a.log == Log::kCoarse) {
    p->declared |= QKVET_KNOB_LOG_ERROR;
    p->log_error = kCoarseLogError;
  }
  if (a.tanh == Tanh::kByCoarseExp) {
    p->declared |= QKVET_KNOB_TANH_ERROR;
    p->tanh_error = kCoarseTanhError;
    p->tanh_floor = kCoarseTanhFloor;
  }
  if (a.tanh == Tanh::kInF16) {
    p->declared |= QKVET_KNOB_TANH_ERROR;
    p->tanh_error = kF16TanhError;
    p->tanh_floor = kF16TanhFloor;
  }
}

// P rounded to the storage type, or to one fixed type. Relative to the maximum
// of the row, if P is not normalised.
constexpr void declare_p(const Arithmetic& a, qkvet_precision* p) {
  // The type of the operands covers P.
  if (a.operands != Storage::kF32) {
    return;
  }
  if (a.p == P::kStorage) {
    p->preset = QKVET_PRECISION_FLASH_HALF;
  }
  if (a.p == P::kSummed || a.p == P::kNormalised) {
    p->declared |= QKVET_KNOB_P_DTYPE;
    p->p_dtype = dtype_named(a.p_type);
    p->sum_of_rounded_p = a.p == P::kSummed ? 1 : 0;
    p->p_normalised = a.p == P::kNormalised ? 1 : 0;
  }
}

// A device: its functions and adders are in the presets.
constexpr qkvet_precision declared_of_device(const Arithmetic& a) {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.preset =
      a.block > 0 ? QKVET_PRECISION_TENSOR_CORE : QKVET_PRECISION_CUDA_FAST;
  p.declared = QKVET_KNOB_TILE;
  p.tile = a.tile;
  if (a.p == P::kUnrounded) {
    p.declared |= QKVET_KNOB_P_DTYPE;
  }
  return p;
}

constexpr qkvet_precision declared_precision(const Arithmetic& a) {
  if (a.fast) {
    return declared_of_device(a);
  }
  qkvet_precision p = sequential_f32();
  // Lanes can only be declared in ascending order.
  p.dot_sum = a.dot == Order::kAscending ? QKVET_SUM_LANES
              : a.dot == Order::kHalves  ? QKVET_SUM_PAIRWISE
                                         : QKVET_SUM_ANY;
  p.dot_lanes = a.dot == Order::kAscending ? a.lanes : 0;
  // Rescaling keeps the order of the sums. Sequential within a part and over
  // the parts is neither one lane nor a tree.
  p.value_sum = a.value == Order::kHalves ? QKVET_SUM_PAIRWISE
                : a.value == Order::kAscending && a.parts == 1 ? QKVET_SUM_LANES
                                                               : QKVET_SUM_ANY;
  p.fma = a.fma ? 1 : 0;
  p.tile = a.tile;
  p.lazy = a.lag > 0 ? kDeclaredLag : 0;
  p.splits = a.parts;
  p.merge = a.merge == Merge::kMlo   ? QKVET_MERGE_MLO
            : a.merge == Merge::kLse ? QKVET_MERGE_LSE
                                     : QKVET_MERGE_NONE;
  p.norm_first = a.norm_first ? 1 : 0;
  p.norm_roundings = a.reciprocal ? kNormReciprocal : kNormDivision;
  p.ftz = a.ftz ? 1 : 0;
  declare_exp(a, &p);
  declare_p(a, &p);
  declare_options(a, &p);
  declare_functions(a, &p);
  declare_roots(a, &p);
  declare_roundings(a, &p);
  return p;
}

constexpr qkvet_dialect declared_dialect(const Arithmetic& a) {
  qkvet_dialect d = options_dialect();
  d.empty_row = a.empty_row;
  d.empty_row_lse = a.empty_row_lse;
  if (a.empty_by_way) {
    d.empty_row_by_mask = QKVET_EMPTY_ROW_NAN;
    d.empty_row_lse_by_mask = QKVET_EMPTY_LSE_NAN;
  }
  if (a.nan_weighs_nothing) {
    d.visible_nan = QKVET_VISIBLE_NAN_MAY_VANISH;
  }
  d.lse_base = a.lse_base2 ? QKVET_LSE_BASE2 : QKVET_LSE_NATURAL;
  d.softcap_order =
      a.softcap_last ? QKVET_SOFTCAP_AFTER_MASK : QKVET_SOFTCAP_BEFORE_MASK;
  d.sink_in_lse = a.sink_in_lse ? QKVET_SINK_IN_LSE : QKVET_SINK_NOT_IN_LSE;
  if (a.ranges_in_window) {
    d.ranges_and_window = QKVET_RANGES_IN_WINDOW;
  }
  if (walks_hidden_keys(a)) {
    d.masked_nonfinite = QKVET_MASKED_NOT_IGNORED;
  }
  return d;
}

constexpr qkvet_capabilities typed_capabilities(const Arithmetic& a) {
  const bool as_storage = a.operands == Storage::kF32;
  const bool one_type =
      as_storage && (a.p == P::kSummed || a.p == P::kNormalised);
  // Hidden keys that are walked may leave NaN in their weights.
  const uint64_t weights = walks_hidden_keys(a) ? 0 : QKVET_OPTION_WEIGHTS;
  // Slopes of each member are also ALiBi.
  const uint64_t without = (a.without & QKVET_OPTION_ALIBI) != 0
                               ? a.without | QKVET_OPTION_ALIBI_PER_MEMBER
                               : a.without;
  const uint64_t options = (kAllOptions | weights | a.more) & ~without;
  if (one_type) {
    return capabilities_with(options, {dtype_named(a.p_type)});
  }
  if (a.f32_only) {
    return capabilities_with(options, {kF32});
  }
  return a.half_only || (as_storage && a.p == P::kStorage)
             ? capabilities_with(options, {kF16, kBf16})
             : capabilities_with(options, {kF32, kF16, kBf16});
}

constexpr qkvet_capabilities declared_capabilities(const Arithmetic& a) {
  qkvet_capabilities c = typed_capabilities(a);
  // f16 has a smaller range than f32.
  const bool ends = a.scores == Storage::kF16 || a.operands == Storage::kF16 ||
                    a.dot_sums == Storage::kF16 ||
                    a.value_sums == Storage::kF16;
  // Sums of n terms in a half type have an error of n roundings: long ones
  // would have uninformative bounds.
  const auto short_sums = [&c](int64_t most) { c.tk.max = c.d.max = most; };
  if (a.dot_sums == Storage::kBf16 || a.value_sums == Storage::kBf16) {
    short_sums(8);
  } else if (a.dot_sums == Storage::kF16) {
    short_sums(64);
  }
  // A root of 8 rounds, and so does a sum of the opposite sign.
  if (a.root_scale || a.cuts_down || ends) {
    c.flags &= ~QKVET_FLAG_POWER_OF_TWO_INVARIANT;
  }
  // Hidden keys vote.
  if (a.votes_before_mask) {
    c.flags &= ~QKVET_FLAG_OTHER_DATA_INVARIANT;
  }
  return c;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_DECLARED_H_
