// SPDX-License-Identifier: Apache-2.0
// The arithmetic that a kernel declares, with every preset resolved. The
// symbols are those of reference/README.md.
#ifndef QKVET_REFERENCE_PRECISION_H_
#define QKVET_REFERENCE_PRECISION_H_

#include <cstdint>
#include <string>

#include "qkvet/kernel.h"

namespace qkvet {

enum class SumOrder : uint8_t { kAny, kLanes, kPairwise };
enum class ScaleStage : uint8_t { kAfterDot, kOnQ, kFolded };
enum class Merge : uint8_t { kNone, kMlo, kLse };

struct PrecisionModel {
  double u = 0x1p-24;  // unit roundoff of the accumulators
  SumOrder dot_sum = SumOrder::kAny;
  int dot_lanes = 1;  // with kLanes
  SumOrder value_sum = SumOrder::kAny;
  bool fma = false;  // products are exact
  ScaleStage scale_stage = ScaleStage::kAfterDot;
  int tile = 0;              // 0: two passes
  double exp_error = 0;      // eps
  double exp_floor = 0;      // phi
  double arg_roundings = 0;  // n_arg
  double ref_roundings = 0;  // n_ref
  double lazy = 0;           // natural log units
  int splits = 1;
  Merge merge = Merge::kNone;
  double norm_roundings = 1;  // nu
  bool norm_first = false;
  bool ftz = false;
  double default_scale_error = 2;  // in units of u
  // Further rescale-like events that every key may meet.
  int extra_rescales = 0;
  // exp(0) is 1, and so is every rescale by an unchanged maximum. Part of what
  // every preset declares; a knob that allows less has to clear it.
  bool exp_exact_at_zero = true;
  // Unit roundoff of the stored weights, for laws that add them up.
  double output_u = 0x1p-24;

  friend bool operator==(const PrecisionModel&,
                         const PrecisionModel&) = default;
};

// The generic preset: what an undeclared kernel is held to.
PrecisionModel generic_precision();

struct ResolvedPrecision {
  PrecisionModel model;
  std::string error;                 // "" or one line: what is wrong or not yet
                                     // derived in the declaration
  bool looser_than_generic = false;  // some value allows more than generic does
};

// `declared` as the kernel wrote it; all zero is generic.
ResolvedPrecision resolve_precision(const qkvet_precision& declared);

}  // namespace qkvet

#endif  // QKVET_REFERENCE_PRECISION_H_
