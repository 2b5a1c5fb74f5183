// SPDX-License-Identifier: Apache-2.0
// Scores that all move by one number, and keys that occur more than once.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/half.h"
#include "properties/calls/option_forms.h"
#include "properties/calls/raw_score.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_scores {

// ---- Keys twice, and heads repeated

// `count` rows of `size` numbers each: every row `times` times.
void repeat_rows(int64_t size, int64_t times, std::vector<double>& rows) {
  std::vector<double> out;
  for (auto at = rows.begin(); at != rows.end(); at += size)
    for (int64_t n = 0; n < times; ++n) out.insert(out.end(), at, at + size);
  rows = std::move(out);
}

void repeat_heads(const Case& value, int64_t times, Inputs& inputs) {
  repeat_rows(value.shape.Tk * value.shape.d, times, inputs.k);
  repeat_rows(value.shape.Tk * value.shape.dv, times, inputs.v);
}

// [B,Hkv,Tk,...] becomes [B,Hkv,2 Tk,...]: the keys once more after themselves.
void repeat_keys(const Case& value, int64_t, Inputs& inputs) {
  repeat_heads(value, 2, inputs);
}
void repeat_groups(const Case& value, int64_t, Inputs& inputs) {
  repeat_heads(value, value.shape.group(), inputs);
}

void grow_by_ln_2(const JudgeInput&, CallPair& pair) {
  pair.lse_offset = [](const Element&) { return std::numbers::ln2; };
}

Case without_causal(Case value) {
  value.causal = Causal::kNone;
  return value;
}

Case with_groups(Case value) {
  Shape& s = value.shape;
  if (s.group() < 2) {
    s.H = std::max<int64_t>(s.H, 2);
    s.Hkv = 1;
  }
  return value;
}

// ---- One bias for a whole row

// -10^N or 10^N of the case, as its type stores it, or the largest number of
// the type.
double number_of(const Case& value) {
  const double largest = largest_finite(value.q_dtype);
  return round_to(value.q_dtype, std::clamp(masking_number(*value.score_bias),
                                            -largest, largest));
}

// One row in four keeps a bias of 0.
double bias_of_row(const Case& value, int64_t i) {
  return i % 4 == 3 ? 0 : number_of(value);
}

void write_rows(const Case& value, int64_t with_number, Inputs& inputs) {
  const Shape& s = value.shape;
  double* at = inputs.bias.data();
  for (int64_t n = 0; n < s.B * s.H * s.Tq; ++n, at += s.Tk)
    std::fill_n(at, s.Tk,
                with_number != 0 ? bias_of_row(value, n % s.Tq) : 0.0);
}

Case with_one_bias_for_a_row(Case value) {
  value = with_own_bias(std::move(value));
  if (!is_of_bias_alone(value.score_bias->kind))
    value.score_bias = make_recipe(RecipeKind::kMaskingN);
  // Far from zero, on one side: a row of zeros is no average of these.
  value.v = make_recipe(RecipeKind::kOffsetN);
  value = without_set_values(std::move(value), TensorName::kV);
  return without_set_values(std::move(value), TensorName::kBias);
}

void plan_rows(const Case&, const KernelInfo&, Plan& plan) {
  plan.calls[0].edit = write_rows;
  plan.calls[1].argument = 1;
}

// lse is not compared if the logarithm of the number to base 2 does not fit its
// type.
void grow_by_number(const JudgeInput& input, CallPair& pair) {
  const Case& value = input.value;
  pair.lse_offset = [&value](const Element& at) {
    return bias_of_row(value, at.i);
  };
  if (lse_unit(input.kernel) * std::fabs(number_of(value)) >
      largest_finite(Dtype::kF32))
    pair.map = [](const Element& at) {
      return at.tensor == TensorName::kO ? std::optional(at) : std::nullopt;
    };
}

// ---- One number added to the whole bias

// A half in -4 .. 4, so that a lattice stays exact in every storage type. Every
// second case of wide types moves it some 2^17, to either side: beyond -10000,
// which serves as -inf in many masks, and beyond the largest f16.
double shift_of(const Case& value, const PrecisionModel& model) {
  constexpr uint64_t kSteps = 17;
  const double near = (static_cast<double>(value.seed % kSteps) - 8) / 2;
  if (value.seed % 2 != 0 || !keeps_far_scores(value, model)) return near;
  return near + (value.seed % 4 == 0 ? 0x1p17 : -0x1p17);
}

// The shift in halves, which is a whole number.
void shift_bias(const Case&, int64_t halves, Inputs& inputs) {
  for (double& x : inputs.bias) x += static_cast<double>(halves) / 2;
}

Case with_lattice_bias(Case value) {
  value = with_own_bias(std::move(value));
  value.score_bias = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kBias);
}

void plan_shift(const Case& value, const KernelInfo& kernel, Plan& plan) {
  const PrecisionModel model = resolve_precision(kernel.precision).model;
  plan.calls[1].argument = static_cast<int64_t>(2 * shift_of(value, model));
}

void grow_by_shift(const JudgeInput& input, CallPair& pair) {
  pair.lse_offset = [shift = shift_of(input.value, input.model)](
                        const Element&) { return shift; };
}

constexpr Law kRows[] = {
    {.id = "duplicated_keys_share_their_weight",
     .sentence =
         "Giving every key twice changes only lse, which grows by ln 2.",
     .formula = "forward(q, [k k], [v v]) = forward(q, k, v); lse + ln 2",
     .precondition = "nothing depends on positions; no sink",
     .reason = "Numerator and denominator of the softmax double.",
     .rounding = "Each side is within its own bound of the same number.",
     .kept_for = "(c) it sets two key lengths against each other, (d) it needs "
                 "no oracle",
     .rank = 240,
     .domain = {.allows = QKVET_OPTION_SOFTCAP | kAllowMemory},
     .constrain = without_causal,
     .relation = {.first = "each key once",
                  .second = "each key twice",
                  .looks = "a key is worth more or less the second time",
                  .variant = [](Case& value) { value.shape.Tk *= 2; },
                  .edit = repeat_keys,
                  .pair = grow_by_ln_2}},
    {.id = "grouped_heads_equal_repeated_heads",
     .sentence = "Grouped heads equal repeated heads: query head h reads "
                 "key/value head h / (H/Hkv).",
     .formula =
         "forward(q, k, v) = forward(q, repeat(k, H/Hkv), repeat(v, H/Hkv))",
     .precondition = "Hkv < H",
     .reason = "A group of query heads reads the same keys and values.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 250,
     .domain = {.allows =
                    kAllowPairs | kAllowScores | kOptionLayout | kAllowServing},
     .constrain = with_groups,
     .relation =
         {.first = "grouped heads",
          .second = "repeated heads",
          .looks = "a query head reads another key/value head than h / group",
          .variant = [](Case& value) { value.shape.Hkv = value.shape.H; },
          .edit = repeat_groups}},
    {.id = "one_bias_for_a_row_changes_nothing",
     .sentence =
         "A row with the same bias at every key equals the row without a bias, "
         "also for -10000, -1e9 and the lowest number of its type.",
     .formula = "softmax(s + a) = softmax(s); lse grows by a",
     .precondition = "a bias; no softcap, no sink; V far from zero",
     .reason = "Every score of the row grows by the same number: a finite bias "
               "hides a key only beside keys with a larger one.",
     .rounding = "Each side is within its own bound of the same number. Where "
                 "the number swallows the scores the bound is the hull of V, "
                 "which is far from zero.",
     .kept_for = "(a) NaN and zeros are far outside of every bound, (d) it "
                 "needs no oracle",
     .rank = 207,
     .domain = {.free_v = false,
                .allows = kAllowPairs | QKVET_OPTION_BIAS | kAllowMemory,
                .about = QKVET_OPTION_BIAS},
     .constrain = with_one_bias_for_a_row,
     .relation = {.first = "a bias of 0",
                  .second = "one number at every key of a row",
                  .looks = "a row whose whole bias is far below is taken for "
                           "one without a key, or overflows on the way",
                  .edit = write_rows,
                  .more_plan = plan_rows,
                  .pair = grow_by_number}},
    {.id = "shifted_bias_changes_nothing",
     .sentence = "One number added to the whole bias changes only lse.",
     .formula = "softmax(s + bias + a) = softmax(s + bias); lse grows by a",
     .precondition = "a bias on a lattice; no softcap, no sink",
     .reason = "Every score of a row grows by the same number, and the softmax "
               "divides it out.",
     .rounding = "Lattice plus number are exact in storage; each side is "
                 "within its own bound of the same number.",
     .kept_for = kWrongAlike,
     .rank = 205,
     .domain = {.allows = kAllowPairs | QKVET_OPTION_BIAS | QKVET_OPTION_ALIBI |
                          kAllowMemory,
                .about = QKVET_OPTION_BIAS},
     .constrain = with_lattice_bias,
     .relation = {.first = "the bias as it is",
                  .second = "one number added to all of it",
                  .looks = "the maximum is taken without the bias, or the bias "
                           "is cut off, or kept in a narrower type",
                  .edit = shift_bias,
                  .more_plan = plan_shift,
                  .pair = grow_by_shift}},
};

}  // namespace of_scores

extern constinit const LawTable scores_laws{of_scores::kRows};

}  // namespace qkvet::properties
