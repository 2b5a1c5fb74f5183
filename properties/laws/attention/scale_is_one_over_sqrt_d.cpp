// SPDX-License-Identifier: Apache-2.0
// One raw score is g, and all others are 0: the kernel's scale c follows from
// the score c g that it used.
#include <cmath>
#include <numbers>

#include "properties/calls/one_score.h"
#include "properties/calls/raw_score.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_scale_is_one_over_sqrt_d {

void one_score(const Case& value, int64_t, Inputs& inputs) {
  put_one_score(value, raw_score(value), inputs);
}

Plan plan(const Case& value, const KernelInfo&) {
  return plan_one_score(value, one_score);
}

// A known origin of the wrong scale; "" if none gives all numbers.
std::string looks_like(const JudgeInput& input) {
  const Case& value = input.value;
  const double g = raw_score(value);
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
  const auto fits = [&](double scale) {
    return gives_all(input, scale * g, given * g);
  };
  for (const Guess& guess : guesses)
    if (guess.scale != given && fits(guess.scale))
      return std::string("an effective scale of ") + guess.text;
  const std::optional<double> score = score_seen(input);
  if (!score || !has_two_numbers(value) || !fits(*score / g)) return "";
  return "an effective scale of " +
         number_text(*score / g / given, Dtype::kF32) + " times the right one";
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const double g = raw_score(input.value);
  compare_with_known(
      input, input.calls[0],
      weights_of_one_score(input.value, scale_of(input.value) * g), judgement);
  if (!judgement.finding) return judgement;
  if (std::string looks = looks_like(input); !looks.empty())
    judgement.finding->looks = std::move(looks);
  return judgement;
}

}  // namespace of_scale_is_one_over_sqrt_d

extern constinit const Law scale_is_one_over_sqrt_d{
    "scale_is_one_over_sqrt_d",
    "Scores scale with 1/sqrt(d_head), or with the scale that is given.",
    "w = e^(c g) / (e^(c g) + n - 1), c = 1/sqrt(d)",
    "some row sees two keys",
    "All raw scores are 0 but one, which is g.",
    "The dot product has one term and is exact; the bound of o covers the "
    "rest.",
    "(d) it needs no oracle: the right answer is a closed formula",
    40,
    Domain{.free_v = false, .free_data = false, .allows = kAllowMemory},
    with_one_score,
    of_scale_is_one_over_sqrt_d::plan,
    of_scale_is_one_over_sqrt_d::judge};

}  // namespace qkvet::properties
