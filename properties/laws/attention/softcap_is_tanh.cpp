// SPDX-License-Identifier: Apache-2.0
// One raw score is g, and all others are 0: the score that the kernel used
// follows from its weight.
#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "properties/calls/one_score.h"
#include "properties/calls/raw_score.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_softcap_is_tanh {

// Both signs: a cap must keep them.
double hot_score(const Case& value) {
  return value.seed / 2 % 2 == 0 ? raw_score(value) : -raw_score(value);
}

void one_score(const Case& value, int64_t, Inputs& inputs) {
  put_one_score(value, hot_score(value), inputs);
}

Case constrain(Case value) {
  value = with_one_score(std::move(value));
  if (!(value.softcap > 0)) value.softcap = 2;
  return value;
}

Plan plan(const Case& value, const KernelInfo&) {
  return plan_one_score(value, one_score);
}

double score_of(const Case& value) {
  return scale_of(value) * hot_score(value);
}
double cap_of(const Case& value) { return static_cast<double>(value.softcap); }
double capped(double cap, double x) { return cap * std::tanh(x / cap); }

// A known origin of the wrong score; "" if none gives all numbers.
std::string looks_like(const JudgeInput& input) {
  const Case& value = input.value;
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
  for (const Guess& guess : guesses)
    if (gives_all(input, guess.score, right)) return guess.text;
  const std::optional<double> score = score_seen(input);
  if (!score || !has_two_numbers(value) || !gives_all(input, *score, right))
    return "";
  return "a score of " + number_text(*score, Dtype::kF32) + " instead of " +
         number_text(right, Dtype::kF32);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  const double right = capped(cap_of(value), score_of(value));
  compare_with_known(input, input.calls[0], weights_of_one_score(value, right),
                     judgement);
  if (!judgement.finding) return judgement;
  if (std::string looks = looks_like(input); !looks.empty())
    judgement.finding->looks = std::move(looks);
  return judgement;
}

}  // namespace of_softcap_is_tanh

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
    280,
    Domain{.free_v = false,
           .free_data = false,
           .allows = QKVET_OPTION_SOFTCAP | kAllowMemory,
           .about = QKVET_OPTION_SOFTCAP},
    of_softcap_is_tanh::constrain,
    of_softcap_is_tanh::plan,
    of_softcap_is_tanh::judge};

}  // namespace qkvet::properties
