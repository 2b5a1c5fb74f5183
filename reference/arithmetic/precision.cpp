// SPDX-License-Identifier: Apache-2.0
// Converts a declaration (preset and knobs) to a PrecisionModel. Declarations
// without a derived bound are refused in one line: ignoring a knob would give a
// wrong bound.
#include "reference/arithmetic/precision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>

#include "reference/arithmetic/precision_presets.h"
#include "reference/arithmetic/precision_storage.h"

namespace qkvet::reference {
namespace {

// Plausible limits: a declaration beyond them is a mistake.
constexpr double kLargestU = 0x1p-11;         // no accumulator worse than f16
constexpr double kLargestExpError = 0x1p-8;   // a relative error
constexpr double kLargestExpFloor = 0x1p-14;  // against a weight of 1
constexpr double kMostRoundings = 1000;       // of one quantity
constexpr double kLargestLazy = 64;           // e^64 is near the end of f32
constexpr int kMostLanes = 4096;
constexpr int kMostSplits = 1 << 20;

constexpr uint64_t kKnownKnobs = (QKVET_KNOB_LOG_ERROR << 1) - 1;

// Their values are numbers of no unit.
constexpr uint64_t kLiteralKnobs = QKVET_KNOB_ACCUMULATOR_U |
                                   QKVET_KNOB_EXP_ERROR |
                                   QKVET_KNOB_TANH_ERROR | QKVET_KNOB_LOG_ERROR;

bool in_range(double value, double low, double high) {
  return value >= low && value <= high;
}

bool declares(const qkvet_precision& p, uint64_t knob) {
  return (p.declared & knob) != 0;
}

bool is_zero(qkvet_dtype dtype) {
  return dtype.code == 0 && dtype.bits == 0 && dtype.lanes == 0;
}

// The fields that the caller's struct has; the rest is zero.
qkvet_precision complete(const qkvet_precision& declared) {
  qkvet_precision whole;
  std::memset(&whole, 0, sizeof whole);
  std::memcpy(&whole, &declared, std::min(declared.struct_size, sizeof whole));
  return whole;
}

std::string preset_error(int32_t preset) {
  constexpr std::array<const char*, 6> kNames = {"generic",    "cpu_f32",
                                                 "flash_half", "tensor_core",
                                                 "cuda_fast",  "math_half"};
  const bool known = preset >= 0 && preset < static_cast<int>(kNames.size());
  if (known && preset != QKVET_PRECISION_MATH_HALF) return "";
  const std::string name = known ? kNames[static_cast<size_t>(preset)]
                                 : "number " + std::to_string(preset);
  return "precision preset " + name +
         " has no derived bound yet; use cpu_f32 or generic";
}

// The type P is rounded to: f16, bf16, or f32 for no rounding. Other types have
// no derivation.
std::optional<Dtype> p_type(qkvet_dtype declared) {
  if (is_zero(declared)) return Dtype::kF32;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    if (same_dtype(declared, dtype_to_abi(dtype))) return dtype;
  }
  return std::nullopt;
}

std::string p_stage_error(const qkvet_precision& p) {
  if (!declares(p, QKVET_KNOB_P_DTYPE)) return "";
  const bool normalised = p.p_normalised != 0;
  const bool summed = p.sum_of_rounded_p != 0;
  const bool half = is_half(p_type(p.p_dtype).value_or(Dtype::kF32));
  if ((normalised || summed) && !half) {
    return "precision field p_dtype declares when P is rounded, but not to "
           "which type";
  }
  if (normalised && summed) {
    return "precision knob p_dtype: P that is rounded after its normalisation "
           "cannot be what the denominator adds";
  }
  return "";
}

std::string unsupported_knob(const qkvet_precision& p) {
  if ((p.declared & ~kKnownKnobs) != 0 || p.reserved != 0) {
    return "the precision declares a knob that this version does not know";
  }
  const char* name = nullptr;
  if (declares(p, QKVET_KNOB_P_DTYPE) && !p_type(p.p_dtype)) {
    name = "p_dtype";
  }
  if (name == nullptr) return "";
  return std::string("precision knob ") + name +
         " has no derived bound yet; leave it undeclared";
}

// A knob for the type to which a number is rounded.
struct RoundingKnob {
  uint64_t knob;
  const char* name;
  qkvet_dtype qkvet_precision::*field;
  Rounding PrecisionModel::*rounding;
  bool by_storage;  // whether it is looser than generic depends on the storage
  bool f32_too = false;  // not to half types alone
};
using M = PrecisionModel;
constexpr RoundingKnob kRoundings[] = {
    {QKVET_KNOB_SCORE_DTYPE, "score_dtype", &qkvet_precision::score_dtype,
     &M::score, false},
    {QKVET_KNOB_OPERAND_DTYPE, "operand_dtype", &qkvet_precision::operand_dtype,
     &M::operand, true},
    {QKVET_KNOB_LSE_DTYPE, "lse_dtype", &qkvet_precision::lse_dtype, &M::lse,
     false},
    {QKVET_KNOB_SINK_DTYPE, "sink_dtype", &qkvet_precision::sink_dtype,
     &M::sink, false},
    {QKVET_KNOB_SOFTMAX_DTYPE, "softmax_dtype", &qkvet_precision::softmax_dtype,
     &M::softmax, false, true},
    {QKVET_KNOB_DOT_SUM_DTYPE, "dot_sum_dtype", &qkvet_precision::dot_sum_dtype,
     &M::dot, false},
    {QKVET_KNOB_VALUE_SUM_DTYPE, "value_sum_dtype",
     &qkvet_precision::value_sum_dtype, &M::value, false}};

// The type that it declares, or nullopt.
std::optional<Dtype> allowed_type(const RoundingKnob& knob,
                                  const qkvet_precision& p) {
  const auto dtype = dtype_from_abi(p.*knob.field);
  const bool allowed =
      dtype && (is_half(*dtype) || (knob.f32_too && *dtype == Dtype::kF32));
  return allowed ? dtype : std::nullopt;
}

bool is_declared(const RoundingKnob& knob, const qkvet_precision& p) {
  return declares(p, knob.knob) && !is_zero(p.*knob.field);
}

std::string rounding_error(const qkvet_precision& p) {
  for (const RoundingKnob& knob : kRoundings) {
    if (!is_declared(knob, p) || allowed_type(knob, p)) continue;
    const auto dtype = dtype_from_abi(p.*knob.field);
    return std::string("precision knob ") + knob.name + " is " +
           (dtype ? std::string(dtype_name(*dtype)) : "no known type") +
           (knob.f32_too ? "; allowed f32, f16, bf16, "
                         : "; allowed f16, bf16, ") +
           "or leave it undeclared";
  }
  return "";
}

// A knob, the limits of its value, and how generic compares.
struct Check {
  uint64_t knob;
  const char* name;
  double value;
  double low;
  double high;
  double generic;  // a larger value allows more than generic does
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string range_error(const Check& check) {
  if (in_range(check.value, check.low, check.high)) return "";
  // Limits that are not finite are not printed.
  std::string allowed = "; allowed ";
  if (std::isfinite(check.low)) allowed += number(check.low) + " ";
  allowed += std::isfinite(check.high) ? ".. " + number(check.high) : "or more";
  return std::string("precision knob ") + check.name + " is " +
         number(check.value) + allowed;
}

// "tile = 3 (generic: 16)"; a row may hold its value with a minus.
std::string looser_text(const Check& check) {
  return std::string(check.name) + " = " + number(std::fabs(check.value)) +
         " (generic: " + number(std::fabs(check.generic)) + ")";
}

void add_looser(std::string& all, const std::string& one) {
  all += (all.empty() ? "" : ", ") + one;
}

// Half storage rounds a scale by up to 2^-9 of itself: 2^15 of these units.
constexpr double kLargestScaleError = 0x1p16;

// One row per value. A smaller tile means more rescales, hence the negation.
std::array<Check, 20> checks_of(const qkvet_precision& p,
                                const PrecisionModel& generic) {
  constexpr double kAny = HUGE_VAL;  // generic allows every value
  const double least_u = 0x1p-60;    // finer than any format; excludes 0
  const double lanes_low = p.dot_sum == QKVET_SUM_LANES ? 1 : 0;
  const double tile_as_order = p.tile == 0 ? -HUGE_VAL : -p.tile;
  return {{
      {QKVET_KNOB_ACCUMULATOR_U, "accumulator_u", p.accumulator_u, least_u,
       kLargestU, generic.u},
      {QKVET_KNOB_DOT_SUM, "dot_sum", double(p.dot_sum), QKVET_SUM_ANY,
       QKVET_SUM_PAIRWISE, kAny},
      {QKVET_KNOB_DOT_SUM, "dot_lanes", double(p.dot_lanes), lanes_low,
       kMostLanes, kAny},
      {QKVET_KNOB_VALUE_SUM, "value_sum", double(p.value_sum), QKVET_SUM_ANY,
       QKVET_SUM_PAIRWISE, kAny},
      {QKVET_KNOB_SCALE_STAGE, "scale_stage", double(p.scale_stage),
       QKVET_SCALE_AFTER_DOT, QKVET_SCALE_FOLDED, kAny},
      {QKVET_KNOB_EXP_ERROR, "exp_error", p.exp_error, 0, kLargestExpError,
       generic.exp_error},
      {QKVET_KNOB_EXP_ERROR, "exp_floor", p.exp_floor, 0, kLargestExpFloor,
       generic.exp_floor},
      {QKVET_KNOB_TANH_ERROR, "tanh_error", p.tanh_error, 0, kLargestExpError,
       generic.tanh_error},
      {QKVET_KNOB_TANH_ERROR, "tanh_floor", p.tanh_floor, 0, kLargestExpError,
       generic.tanh_floor},
      {QKVET_KNOB_LOG_ERROR, "log_error", p.log_error, 0, kLargestExpError,
       kLogOfGeneric * generic.u},
      {QKVET_KNOB_ARG_ROUNDINGS, "arg_roundings", p.arg_roundings, 0,
       kMostRoundings, generic.arg_roundings},
      {QKVET_KNOB_REF_ROUNDINGS, "ref_roundings", p.ref_roundings, 0,
       kMostRoundings, generic.ref_roundings},
      {QKVET_KNOB_TILE, "tile", double(p.tile), 0, HUGE_VAL, kAny},
      {QKVET_KNOB_TILE, "tile", tile_as_order, -HUGE_VAL, 0,
       -double(generic.tile)},
      {QKVET_KNOB_LAZY, "lazy", p.lazy, 0, kLargestLazy, generic.lazy},
      {QKVET_KNOB_SPLITS, "splits", double(p.splits), 1, kMostSplits,
       double(generic.splits)},
      {QKVET_KNOB_SPLITS, "merge", double(p.merge), QKVET_MERGE_NONE,
       QKVET_MERGE_LSE, kAny},
      {QKVET_KNOB_NORM, "norm_roundings", p.norm_roundings, 0, kMostRoundings,
       generic.norm_roundings},
      {QKVET_KNOB_DEFAULT_SCALE_ERROR, "default_scale_error",
       p.default_scale_error, 0, kLargestScaleError,
       generic.default_scale_error},
      {QKVET_KNOB_FTZ, "ftz", double(p.ftz), -HUGE_VAL, HUGE_VAL, kAny},
  }};
}

void apply_sums(const qkvet_precision& p, PrecisionModel& model) {
  if (declares(p, QKVET_KNOB_ACCUMULATOR_U)) model.u = p.accumulator_u;
  if (declares(p, QKVET_KNOB_DOT_SUM)) {
    model.dot_sum = static_cast<SumOrder>(p.dot_sum);
    model.dot_lanes = std::max(1, p.dot_lanes);
  }
  if (declares(p, QKVET_KNOB_VALUE_SUM)) {
    model.value_sum = static_cast<SumOrder>(p.value_sum);
  }
  if (declares(p, QKVET_KNOB_FMA)) model.fma = p.fma != 0;
  if (declares(p, QKVET_KNOB_SCALE_STAGE)) {
    model.scale_stage = static_cast<ScaleStage>(p.scale_stage);
    model.scale_split = false;
  }
  if (declares(p, QKVET_KNOB_DEFAULT_SCALE_ERROR)) {
    model.default_scale_error = p.default_scale_error;
  }
}

void apply_softmax(const qkvet_precision& p, PrecisionModel& model) {
  if (declares(p, QKVET_KNOB_EXP_ERROR)) {
    model.exp_error = p.exp_error;
    model.exp_floor = p.exp_floor;
    model.exp_exact_at_zero = p.exp_inexact_at_zero == 0;
  }
  if (declares(p, QKVET_KNOB_ARG_ROUNDINGS)) {
    model.arg_roundings = p.arg_roundings;
  }
  if (declares(p, QKVET_KNOB_REF_ROUNDINGS)) {
    model.ref_roundings = p.ref_roundings;
  }
  if (declares(p, QKVET_KNOB_TANH_ERROR)) {
    model.tanh_error = p.tanh_error;
    model.tanh_floor = p.tanh_floor;
  }
  if (declares(p, QKVET_KNOB_LOG_ERROR)) model.log_error = p.log_error;
  if (declares(p, QKVET_KNOB_TILE)) model.tile = p.tile;
  if (declares(p, QKVET_KNOB_LAZY)) model.lazy = p.lazy;
  if (declares(p, QKVET_KNOB_SPLITS)) {
    model.splits = p.splits;
    model.merge = static_cast<Merge>(p.merge);
    model.extra_rescales = 0;
  }
  if (declares(p, QKVET_KNOB_NORM)) {
    model.norm_roundings = p.norm_roundings;
    model.norm_first = p.norm_first != 0;
  }
  if (declares(p, QKVET_KNOB_FTZ)) model.ftz = p.ftz != 0;
}

void apply_roundings(const qkvet_precision& p, PrecisionModel& model,
                     std::string& looser) {
  for (const RoundingKnob& knob : kRoundings) {
    if (!is_declared(knob, p)) continue;
    const Dtype dtype = allowed_type(knob, p).value_or(Dtype::kF32);
    model.*knob.rounding = rounding_to(dtype);
    // f32 is a rounding for f64 storage alone.
    if (knob.by_storage || dtype == Dtype::kF32) continue;
    add_looser(looser, std::string(knob.name) + " = " +
                           std::string(dtype_name(dtype)) +
                           " (generic: not rounded)");
  }
  model.rope_as_storage =
      declares(p, QKVET_KNOB_ROTATED) && p.rotated_as_stored != 0;
  // The softmax reads scores as it stores everything.
  if (!model.score.rounds()) model.score = model.softmax;
}

// P as the softmax leaves it, unless declared otherwise: quotients are stored,
// and so are exponentials, which the denominator adds unchanged.
void apply_softmax_to_p(PrecisionModel& model) {
  const bool divided = model.norm_first || model.p_any_stage;
  if (!divided) return;
  if (model.softmax.to == Dtype::kF32) {
    model.p_as_f32 = true;
    return;
  }
  round_p_to(model.softmax.to, model);
  model.p_as_storage = false;
}

// After the other knobs: what is normalised first and rounded to the storage
// type is rounded after its normalisation.
void apply_p(const qkvet_precision& p, PrecisionModel& model) {
  if (!declares(p, QKVET_KNOB_P_DTYPE)) {
    // P meets v in what v is rounded to.
    const bool as_operand = model.operand.rounds();
    if (as_operand) {
      round_p_to(model.operand.to, model);
      model.p_as_storage = false;
    }
    const bool by_softmax = !as_operand && model.softmax.rounds();
    if (by_softmax) apply_softmax_to_p(model);
    const bool rounded = model.p_as_storage || model.p_u > 0;
    const bool known = rounded && !model.p_any_stage;
    model.p_normalised = known && model.norm_first;
    return;
  }
  model.p_as_storage = false;
  model.p_any_stage = false;
  const Dtype dtype = p_type(p.p_dtype).value_or(Dtype::kF32);
  if (is_half(dtype)) round_p_to(dtype, model);
  // A rounding only where the arithmetic is finer.
  model.p_as_f32 = dtype == Dtype::kF32 && !is_zero(p.p_dtype);
  model.p_normalised = p.p_normalised != 0;
  model.sum_of_rounded_p = p.sum_of_rounded_p != 0;
  if (model.p_normalised) model.norm_first = true;
}

}  // namespace

ResolvedPrecision resolve_precision(const qkvet_precision& declared) {
  const qkvet_precision p = complete(declared);
  const PrecisionModel generic = generic_precision();
  ResolvedPrecision resolved;
  resolved.model = generic;
  resolved.error = preset_error(p.preset);
  if (resolved.error.empty()) resolved.error = unsupported_knob(p);
  if (resolved.error.empty()) resolved.error = p_stage_error(p);
  if (resolved.error.empty()) resolved.error = rounding_error(p);
  std::string& looser = resolved.looser;
  for (const Check& check : checks_of(p, generic)) {
    if (!declares(p, check.knob)) continue;
    if (resolved.error.empty()) resolved.error = range_error(check);
    if (check.value > check.generic) add_looser(looser, looser_text(check));
  }
  const bool split_without_merge = declares(p, QKVET_KNOB_SPLITS) &&
                                   p.splits > 1 && p.merge == QKVET_MERGE_NONE;
  if (resolved.error.empty() && split_without_merge) {
    resolved.error = "precision knob splits needs a merge";
  }
  if (!resolved.error.empty()) return resolved;
  resolved.model = preset_precision(p.preset);
  apply_sums(p, resolved.model);
  apply_softmax(p, resolved.model);
  apply_roundings(p, resolved.model, looser);
  apply_p(p, resolved.model);
  resolved.model.literal = p.declared & kLiteralKnobs;
  // Blocks are part of the preset for tensor cores; on top of another one they
  // allow more than generic does.
  if (declares(p, QKVET_KNOB_TENSOR_CORE)) {
    const bool blocks = p.tensor_core != 0;
    if (blocks && resolved.model.block_u == 0)
      add_looser(looser, "tensor_core = 1 (generic: 0)");
    if (blocks) add_in_blocks(resolved.model);
    if (!blocks) resolved.model.block_u = 0;
  }
  resolved.looser_than_generic = !looser.empty();
  return resolved;
}

}  // namespace qkvet::reference
