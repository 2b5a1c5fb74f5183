// SPDX-License-Identifier: Apache-2.0
// From a declaration to the model of one storage type: what a preset leaves to
// the storage is filled in (bounds.md, "Rounded P" and "f64").
#include "reference/arithmetic/precision_storage.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/half.h"

namespace qkvet::reference {
namespace {

// Units of u in f64 for those in f32.
constexpr double kF64Units = 0x1p-53 / 0x1p-24;
// glibc documents exp within 1 ulp, at most 2 units of u, and does not measure
// it as closely as expf.
constexpr double kExpErrorF64 = 2 * 0x1p-53;
// As 2^-125 is to f32: polynomials clamp their argument above the subnormals.
constexpr double kExpFloorF64 = 0x1p-1021;
// Sixteen times the least subnormal: products of the twin underflow as well.
constexpr int kUnderflowF64 = -1070;
// Splitting a double into halves multiplies it by 2^27, in the twin. Far below
// the end of the format, and the bound's own sums stay finite.
constexpr int kLargestF64 = 960;
constexpr double kLargestArgumentF64 = 710;

// The presets in units of f64; what is declared in numbers stays.
void scale_to_f64(PrecisionModel& model) {
  const auto left_open = [&](uint64_t knob) {
    return (model.literal & knob) == 0;
  };
  if (left_open(QKVET_KNOB_ACCUMULATOR_U)) model.u *= kF64Units;
  if (left_open(QKVET_KNOB_EXP_ERROR)) {
    model.exp_error = std::max(model.exp_error * kF64Units, kExpErrorF64);
    model.exp_floor = kExpFloorF64;
  }
  if (left_open(QKVET_KNOB_TANH_ERROR)) {
    model.tanh_error *= kF64Units;
    model.tanh_floor *= kF64Units;
  }
  model.block_u *= kF64Units;
  model.range.normal = -1022;
  model.range.underflow = kUnderflowF64;
  model.range.cap_exponent = kLargestF64;
  model.range.largest_safe = std::ldexp(1.0, kLargestF64);
  model.range.largest_argument = kLargestArgumentF64;
  model.range.evaluation_u = 0x1p-53;
  // Weights of the twin may be subnormal, too.
  model.exp_floor = std::max(model.exp_floor, model.range.lambda(false));
  if (!model.p_as_f32) return;
  // The declaration does not define when P is rounded.
  round_p_to(Dtype::kF32, model);
  model.p_any_stage = true;
}

// Applies the rounding of stored softmax results: f32 rounds only f64. An
// exponential keeps the preset's error in units of f32, unless it is declared.
void store_softmax(const PrecisionModel& preset, bool f64,
                   PrecisionModel& model) {
  if (!model.softmax.rounds()) return;
  if (model.softmax.to == Dtype::kF32 && !f64) {
    if (model.score.to == Dtype::kF32) model.score = {};
    model.softmax = {};
    return;
  }
  if ((model.literal & QKVET_KNOB_EXP_ERROR) == 0) {
    model.exp_error = preset.exp_error * (model.softmax.u / 0x1p-24);
    model.exp_floor = std::max(model.exp_floor, preset.exp_floor);
  }
  model.exp_floor = std::max(model.exp_floor, model.softmax.floor);
}

}  // namespace

bool is_half(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBf16;
}

void round_p_to(Dtype dtype, PrecisionModel& model) {
  model.p_u = unit_roundoff(dtype);
  model.p_floor = underflow_error(dtype);
  model.p_largest = largest_finite(dtype);
}

Rounding rounding_to(Dtype dtype) {
  return {dtype, unit_roundoff(dtype), underflow_error(dtype),
          largest_finite(dtype)};
}

double Rounding::exactly(double x) const {
  return rounds() ? std::fabs(round_to(to, x) - x) : 0;
}

PrecisionModel for_storage(PrecisionModel model, Dtype kv, Dtype o) {
  const PrecisionModel preset = model;
  const bool f64 = kv == Dtype::kF64 && o == Dtype::kF64;
  const bool rounds_p = model.p_as_storage || model.p_u > 0;
  if (model.p_as_storage && is_half(kv)) round_p_to(kv, model);
  if ((rounds_p || model.rope_as_storage) && is_half(kv)) {
    // Kernels that multiply in half also round rotated q and k to half.
    model.rope_u = unit_roundoff(kv);
    model.rope_floor = underflow_error(kv);
    model.rope_largest = largest_finite(kv);
  }
  if (is_half(o) || o == Dtype::kF64) {
    model.output_u = unit_roundoff(o);
    model.output_floor = underflow_error(o);
    model.output_largest = largest_finite(o);
  }
  if (f64) scale_to_f64(model);
  store_softmax(preset, f64, model);
  return model;
}

bool looser_for_storage(const PrecisionModel& model, Dtype dtype) {
  const PrecisionModel own = for_storage(model, dtype, dtype);
  const PrecisionModel generic = for_storage(generic_precision(), dtype, dtype);
  if (own.p_u > generic.p_u || own.p_floor > generic.p_floor) return true;
  // Stored numbers are not rounded by a product in the same type.
  if (own.operand.rounds() && own.operand.to != dtype) return true;
  if (dtype != Dtype::kF64) return false;
  return own.softmax.rounds() || own.u > generic.u ||
         own.exp_error > generic.exp_error ||
         own.exp_floor > generic.exp_floor ||
         own.tanh_error > generic.tanh_error ||
         own.tanh_floor > generic.tanh_floor ||
         own.log_error > kLogOfGeneric * generic.u;
}

}  // namespace qkvet::reference
