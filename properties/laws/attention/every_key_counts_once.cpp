// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_every_key_counts_once {

// Zeros and ones, so that all sums are exact: ones in column 0, and in column c
// at every key of a residue class. A single column holds the odd keys.
double value_at(const Shape& s, int64_t j, int64_t c) {
  if (s.dv == 1) return static_cast<double>(j % 2);
  return c == 0 || j % (s.dv - 1) == c - 1 ? 1 : 0;
}

void zeros_and_ones(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (double& x : inputs.q) x = std::isnan(x) ? x : 0;
  for (size_t n = 0; n < inputs.v.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    double& v = inputs.v[n];
    if (!std::isnan(v)) v = value_at(s, at / s.dv % s.Tk, at % s.dv);
  }
}

Case constrain(Case value) {
  value.q = make_recipe(RecipeKind::kZero);
  value.v = make_recipe(RecipeKind::kCount);
  value.set.clear();
  return value;
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  PlannedCall call;
  call.edit = zeros_and_ones;
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

// The share of ones among the keys that each row sees.
std::vector<double> closed_formula(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  const Visibility& visibility = *input.visibility;
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  double* at = out.data();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i, at += s.dv) {
        for (int64_t j = 0; j < s.Tk; ++j) {
          if (!visibility.sees(b, h, i, j)) continue;
          for (int64_t c = 0; c < s.dv; ++c) at[c] += value_at(s, j, c);
        }
        const auto keys = static_cast<double>(visibility.keys(b, h, i));
        for (int64_t c = 0; c < s.dv; ++c) at[c] /= keys;
      }
  return out;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_known(input, input.calls[0], closed_formula(input), judgement);
  if (judgement.finding)
    judgement.finding->looks = "a key was lost, or counted more than once";
  return judgement;
}

}  // namespace of_every_key_counts_once

extern constinit const Law every_key_counts_once{
    "every_key_counts_once",
    "Every key counts once: with equal scores an output is the share of "
    "ones among the keys that the row sees.",
    "o[i,c] = sum_j v[j,c] / n(i), q = 0, v in {0, 1}",
    "plain scores",
    "exp(0) = 1 for every key: numerator and denominator count.",
    "Whole numbers below 2^24 add up exactly in any order; only the "
    "division rounds.",
    "(b) one key among 131,072 shows, (d) it needs no oracle",
    50,
    Domain{.free_v = false,
           .allows = kAllowRope | kAllowPairs | kAllowSoftcap | kAllowMemory},
    of_every_key_counts_once::constrain,
    of_every_key_counts_once::plan,
    of_every_key_counts_once::judge};

}  // namespace qkvet::properties
