// SPDX-License-Identifier: Apache-2.0
// The arithmetic that a kernel declares, with every preset resolved. The
// symbols are those of reference/bounds.md.
#ifndef QKVET_REFERENCE_ARITHMETIC_PRECISION_H_
#define QKVET_REFERENCE_ARITHMETIC_PRECISION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "core/base/dtype.h"
#include "core/base/floors.h"
#include "core/base/power_of_two.h"
#include "qkvet/kernel.h"

namespace qkvet::reference {

enum class SumOrder : uint8_t { kAny, kLanes, kPairwise };
enum class ScaleStage : uint8_t { kAfterDot, kOnQ, kFolded };
enum class Merge : uint8_t { kNone, kMlo, kLse };

// The range of a kernel's numbers, for underflow and overflow; f32 unless
// for_storage() sets another.
struct FloatRange {
  int normal = -126;       // exponent of the least normal number
  int underflow = -149;    // exponent of the largest error by underflow
  int cap_exponent = 120;  // softcaps beyond 2^this or 2^-this are not judged
  // A third of the largest f32: room for log2(e) = 1.44 and for rounding; sums
  // above it may overflow.
  double largest_safe = 1e38;
  double largest_argument = 89;  // exp overflows beyond it
  // Unit roundoff of the bound's own evaluation where it counts: it is double,
  // and vanishes in the second order of f32.
  double evaluation_u = 0;

  int lambda_exponent(bool ftz) const { return ftz ? normal : underflow; }
  double lambda(bool ftz) const { return power_of_two(lambda_exponent(ftz)); }
  double least_normal() const { return power_of_two(normal); }

  friend bool operator==(const FloatRange&, const FloatRange&) = default;
};

// A rounding of a number to a narrower format; u = 0: none.
struct Rounding {
  Dtype to = Dtype::kF32;
  double u = 0;
  double floor = 0;  // half its smallest subnormal
  double largest = std::numeric_limits<double>::infinity();

  bool rounds() const { return u > 0; }
  // The largest error of rounding a number of at most `size`. It is rounded in
  // units of 1 / `unit`, and flushed below lambda.
  double of(double size, double lambda, double unit = 1) const {
    return rounds() ? std::max(u * size, std::max(floor, lambda) * unit) : 0;
  }
  // The distance from x to the nearest number of the format.
  double exactly(double x) const;

  friend bool operator==(const Rounding&, const Rounding&) = default;
};

struct PrecisionModel {
  double u = 0x1p-24;  // unit roundoff of the accumulators
  SumOrder dot_sum = SumOrder::kAny;
  int dot_lanes = 1;  // with kLanes
  SumOrder value_sum = SumOrder::kAny;
  bool fma = false;  // products are exact
  ScaleStage scale_stage = ScaleStage::kAfterDot;
  bool scale_split = false;  // with kOnQ: its root may be on q and on k
  int tile = 0;              // 0: two passes
  double exp_error = 0;      // eps
  double exp_floor = 0;      // phi
  double arg_roundings = 0;  // n_arg
  double ref_roundings = 0;  // n_ref
  double lazy = 0;           // natural log units
  double tanh_error = 0;     // relative
  double tanh_floor = 0;     // absolute
  // delta, of a logarithm x in units of max(1, |x|); 0: given by u.
  double log_error = 0;
  int splits = 1;
  Merge merge = Merge::kNone;
  double norm_roundings = 1;  // nu
  bool norm_first = false;
  bool ftz = false;
  double default_scale_error = 2;  // in units of u
  // Block adders, that is tensor cores; block_u = 0: none. bounds.md, "Block
  // adders": w, what one addend may lose in units of w, and K.
  double block_u = 0;
  double block_align = 0;
  int block_terms = 0;
  bool fast_log = false;  // as far off as an exponential of 2^-22
  // No device has been measured against these values: a result beyond this
  // bound but within that of doubted() is a warning.
  bool unmeasured = false;
  // Further rescale-like events that every key may meet.
  int extra_rescales = 0;
  // exp(0) is 1, and so is every rescale by an unchanged maximum. Part of what
  // every preset declares; a knob that allows less has to clear it.
  bool exp_exact_at_zero = true;

  // P, the weights on their way into P v. p_u = 0: not rounded beyond u.
  double p_u = 0;
  double p_floor = 0;  // a_p: absolute error where rounded P underflows
  double p_largest = std::numeric_limits<double>::infinity();
  bool p_normalised = false;      // rounded after its normalisation
  bool sum_of_rounded_p = false;  // the denominator adds rounded P
  bool p_any_stage = false;       // either of them, or neither: not known
  bool p_as_storage = false;      // rounded to what v is stored as, if half
  bool p_as_f32 = false;          // f32 by declaration: a rounding for f64

  // Rotated q and k on their way into q k. rope_u = 0: not rounded beyond u.
  bool rope_as_storage = false;
  double rope_u = 0;
  double rope_floor = 0;
  double rope_largest = std::numeric_limits<double>::infinity();

  Rounding score;    // scores, each time they are stored
  Rounding operand;  // q, k and v on their way into a product
  Rounding lse;      // as it is returned
  Rounding sink;     // as it is read
  // The type in which results of the softmax are stored; sums of a tile are
  // added in f32 at least. bounds.md, "Softmax in half, or in f32".
  Rounding softmax;
  // Sums of q k and of P v, rounded after each addition.
  Rounding dot;
  Rounding value;

  FloatRange range;
  // The values of these knobs are as declared, whatever the storage; those of
  // a preset are in units of the storage's arithmetic.
  uint64_t literal = 0;  // QKVET_KNOB_*

  // Stored results: unit roundoff and floor of returned weights, for laws that
  // add them up; the largest finite output.
  double output_u = 0x1p-24;
  double output_floor = 0x1p-149;
  double output_largest = std::numeric_limits<float>::max();

  // Unit roundoff of the sums of q k, and of P v.
  double dot_u() const { return std::max(u, dot.u); }
  double value_u() const { return std::max(u, value.u); }
  // Unit roundoff of stored results of the softmax, and of the sum in a
  // denominator: with tiles, stored results are added up.
  double softmax_u() const { return std::max(u, softmax.u); }
  // The declared error of a logarithm of at most `size`.
  double log_off(double size) const {
    return log_error > 0 ? log_error * std::max(1.0, size) : 0;
  }
  double sum_u() const {
    const bool stores_once = tile == 0 && splits == 1;
    return stores_once ? std::max(u, std::min(softmax.u, 0x1p-24))
                       : softmax_u();
  }

  friend bool operator==(const PrecisionModel&,
                         const PrecisionModel&) = default;
};

// The model for a case with k and v stored as `kv` and outputs stored as `o`:
// fills in what the declaration leaves to the storage. Nothing changes if both
// are f32. Both f64: bounds.md, "f64".
PrecisionModel for_storage(PrecisionModel model, Dtype kv, Dtype o);

// Whether values that depend on the storage are looser than an undeclared
// kernel's if all tensors are stored as `dtype`: the rounding of P, and for f64
// all values that are declared as numbers. resolve_precision cannot decide
// this.
bool looser_for_storage(const PrecisionModel& model, Dtype dtype);

// The widest model that an unmeasured one may become when devices are measured
// (bounds.md, "Not measured"); any other model is unchanged.
PrecisionModel doubted(PrecisionModel model);

// The largest error of block adders for n terms in an extent of N, cut into
// blocks from `starts` places on, in parts of M; 0 without them. bounds.md,
// "Block adders".
double block_cost(const PrecisionModel& model, int64_t n, int64_t N,
                  int64_t starts = 1);

// Integers up to the inverse of this are added exactly.
inline double exact_u(const PrecisionModel& model) {
  return std::max(model.u, model.block_u);
}

// The generic preset: the requirement for an undeclared kernel.
PrecisionModel generic_precision();
// The largest log_error that it allows, in units of u: six roundings of ln L +
// 1, one of which is the addition of the maximum.
inline constexpr double kLogOfGeneric = 5;

struct ResolvedPrecision {
  PrecisionModel model;
  std::string error;                 // "" or one line: what is wrong or not yet
                                     // derived in the declaration
  bool looser_than_generic = false;  // some value allows more than generic
                                     // does, whatever the storage
  std::string looser;                // "tile = 3 (generic: 16), ..."
};

// `declared` as the kernel wrote it; all zero is generic.
ResolvedPrecision resolve_precision(const qkvet_precision& declared);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_PRECISION_H_
