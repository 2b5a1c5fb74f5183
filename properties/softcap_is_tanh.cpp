// SPDX-License-Identifier: Apache-2.0
// One raw score is g and all others are 0, so that its weight gives back the
// score that the kernel really used:
//   w = e^t / (e^t + n - 1),  t = ln w - ln(1 - w) + ln(n - 1).
#include <algorithm>
#include <cmath>

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
// Both signs: a cap must keep them.
double hot_score(const Case& value) {
  return value.seed / 2 % 2 == 0 ? raw_score(value) : -raw_score(value);
}

// Key 0 is visible wherever any key is.
void one_score(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const int64_t hot = hot_channel(value);
  for (size_t n = 0; n < inputs.q.size(); ++n)
    inputs.q[n] = static_cast<int64_t>(n) % s.d == hot ? hot_score(value) : 0;
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
  if (!(value.softcap > 0)) value.softcap = 2;
  return value;
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan;
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

double score_of(const Case& value) {
  return scale_of(value) * hot_score(value);
}
double cap_of(const Case& value) { return static_cast<double>(value.softcap); }
double capped(double cap, double x) { return cap * std::tanh(x / cap); }

// w of every row, in every channel of o.
std::vector<double> closed_formula(const Case& value) {
  const Shape& s = value.shape;
  const double others = std::exp(-capped(cap_of(value), score_of(value)));
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  for (size_t n = 0; n < out.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / s.dv % s.Tq;
    const auto keys = static_cast<double>(visible_keys(value, row));
    out[n] = 1 / (1 + (keys - 1) * others);
  }
  return out;
}

// What a wrong score is known to come from.
std::string looks_like(const Case& value, double effective) {
  const double cap = cap_of(value), x = score_of(value);
  const double right = capped(cap, x);
  struct Guess {
    double score;
    const char* text;
  };
  const Guess guesses[] = {
      {x, "no cap: the score as it is"},
      {std::fabs(right), "the sign of the score lost"},
      {std::tanh(x / cap), "tanh(score / cap) without the factor cap"},
      {capped(cap, x / cap), "the score divided by the cap twice"},
      {cap * std::tanh(x), "cap * tanh(score): not divided by the cap"},
      {std::clamp(x, -cap, cap), "the score clamped to the cap"},
      {capped(cap, right), "the cap applied twice"},
      {scale_of(value) * capped(cap, hot_score(value)),
       "the cap applied before the scale"},
      {std::log(std::tanh(std::exp(x) / cap) / std::tanh(1 / cap)),
       "the cap applied after exp"}};
  const double error = 256 * unit_roundoff(value.o_dtype);
  for (const Guess& guess : guesses)
    if (std::fabs(effective - guess.score) < error &&
        std::fabs(guess.score - right) > 2 * error)
      return guess.text;
  return "a score of " + number_text(effective, Dtype::kF32) + " instead of " +
         number_text(right, Dtype::kF32);
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
  if (!(w > 0 && w < 1 && n > 1)) return judgement;
  judgement.finding->looks =
      looks_like(input.value, std::log(w) - std::log1p(-w) + std::log(n - 1));
  return judgement;
}

}  // namespace

extern constinit const Law softcap_is_tanh{
    "softcap_is_tanh",
    "A softcap is cap * tanh(score / cap), after the scale and before "
    "softmax.",
    "w = e^t / (e^t + n - 1), t = cap tanh(c g / cap)",
    "a softcap; some row sees two keys",
    "All raw scores are 0 but one, which is g, and tanh(0) = 0.",
    "The dot product has one term and is exact; the bound of o covers the "
    "rest.",
    "(d) it needs no oracle: the right answer is a closed formula that names "
    "the mistake",
    Aim{.free_v = false,
        .free_data = false,
        .admits = kAdmitSoftcap | kAdmitMemory,
        .about = kAdmitSoftcap},
    fit,
    plan,
    judge};

}  // namespace qkvet
