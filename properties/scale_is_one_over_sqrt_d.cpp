// SPDX-License-Identifier: Apache-2.0
// One channel of q and of one key is nonzero, so every raw score but one is 0
// and that one is g. The output in a channel that is 1 at that key alone is
//   w = e^(c g) / (e^(c g) + n - 1),
// which gives back the scale c that the kernel really used:
//   c = (ln w - ln(1 - w) + ln(n - 1)) / g.
#include <cmath>
#include <numbers>

#include "core/half.h"
#include "properties/compare.h"
#include "properties/fit.h"
#include "properties/law.h"
#include "properties/raw_score.h"
#include "properties/visibility.h"

namespace qkvet {
namespace {

int64_t hot_channel(const Case& value) {
  return pick_by_seed(value.seed, value.shape.d);
}

// Key 0 is visible wherever any key is.
void one_score(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const int64_t hot = hot_channel(value);
  const double g = raw_score(value);
  for (size_t n = 0; n < inputs.q.size(); ++n)
    inputs.q[n] = static_cast<int64_t>(n) % s.d == hot ? g : 0;
  for (size_t n = 0; n < inputs.k.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    inputs.k[n] = at / s.d % s.Tk == 0 && at % s.d == hot ? 1 : 0;
  }
  for (size_t n = 0; n < inputs.v.size(); ++n)
    inputs.v[n] = static_cast<int64_t>(n) / s.dv % s.Tk == 0 ? 1 : 0;
}

Case fit(Case value) {
  value.q = value.k = value.v = make_recipe(RecipeKind::kZero);
  value.set.clear();
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  // Some row must see two keys.
  if (value.causal == Causal::kTopLeft)
    value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  if (value.scale && *value.scale == 0) value.scale = 1.0f;
  return value;
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan;
  if (visible_keys(value, value.shape.Tq - 1) < 2) {
    plan.not_applicable = "no row sees two keys";
    return plan;
  }
  if (!has_raw_score(value)) {
    plan.not_applicable = "the given scale leaves no room for a raw score";
    return plan;
  }
  PlannedCall call;
  call.edit = one_score;
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

// What a wrong scale is known to come from.
std::string looks_like(const Case& value, double effective) {
  struct Guess {
    double scale;
    const char* text;
  };
  const auto d = static_cast<double>(value.shape.d);
  const double width = d * static_cast<double>(value.shape.H);
  const double given = scale_of(value);
  const Guess guesses[] = {
      {1 / std::sqrt(d), "1/sqrt(d): the given scale was ignored"},
      {1 / std::sqrt(width), "1/sqrt(D), D = H*d: the model width was used"},
      {1, "1: no scale at all"},
      {given * given, "the scale applied twice"},
      {std::sqrt(d), "sqrt(d): multiplied instead of divided"},
      {1 / d, "1/d: the square root is missing"},
      {given / std::numbers::ln2, "the scale times log2(e)"},
      {given * std::numbers::ln2, "the scale times ln 2"}};
  // The fitted value carries the rounding of one weight: some 2^-20.
  constexpr double kFitError = 0x1p-12;
  for (const Guess& guess : guesses)
    if (std::fabs(effective / guess.scale - 1) < kFitError &&
        guess.scale != given)
      return std::string("an effective scale of ") + guess.text;
  return "an effective scale of " +
         number_text(effective / given, Dtype::kF32) + " times the right one";
}

// w of every row, in every channel of o.
std::vector<double> closed_formula(const Case& value) {
  const Shape& s = value.shape;
  const double others = std::exp(-scale_of(value) * raw_score(value));
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  for (size_t n = 0; n < out.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / s.dv % s.Tq;
    const auto keys = static_cast<double>(visible_keys(value, row));
    out[n] = 1 / (1 + (keys - 1) * others);
  }
  return out;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_known(input, input.calls[0], closed_formula(input.value),
                     judgement);
  if (!judgement.finding) return judgement;
  const Shape& s = input.value.shape;
  const std::vector<double> o =
      as_doubles(input.calls[0].outcome->o, input.value.o_dtype);
  // The last row sees the most keys; its first channel speaks for all.
  const int64_t row = s.Tq - 1;
  const auto n = static_cast<double>(visible_keys(input.value, row));
  const double w = o[static_cast<size_t>(row * s.dv)];
  if (!(w > 0 && w < 1)) return judgement;
  const double effective =
      (std::log(w) - std::log1p(-w) + std::log(n - 1)) / raw_score(input.value);
  judgement.finding->looks = looks_like(input.value, effective);
  return judgement;
}

}  // namespace

extern constinit const Law scale_is_one_over_sqrt_d{
    "scale_is_one_over_sqrt_d",
    "Scores scale with 1/sqrt(d_head), or with the scale that is given.",
    "w = e^(c g) / (e^(c g) + n - 1), c = 1/sqrt(d)",
    "some row sees two keys",
    "All raw scores are 0 but one, which is g.",
    "The dot product has one term and is exact; the bound of o covers the "
    "rest.",
    "(d) it needs no oracle: the right answer is a closed formula",
    Aim{.free_v = false, .free_data = false, .admits = kAdmitMemory},
    fit,
    plan,
    judge};

}  // namespace qkvet
