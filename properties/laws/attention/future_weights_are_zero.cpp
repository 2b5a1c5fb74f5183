// SPDX-License-Identifier: Apache-2.0
// Kernels that return weights are read directly. For all others V is a
// staircase: channel c is 1 at the keys that some row r(c) must not see and 0
// at all others, so that row r(c), and every earlier one, must return exactly
// 0 there. The nearest future key, where masks go wrong, is always on a step.
#include <cmath>

#include "core/base/half.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/placements.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_future_weights_are_zero {

// The row with its first masked key where channel c steps up.
int64_t step_row(const Case& value, int64_t c) {
  const int64_t rows = rows_with_masked_keys(value);
  const int64_t stride = std::max<int64_t>(1, rows / value.shape.dv);
  return (pick_by_seed(value.seed, rows) + c * stride) % rows;
}

void staircase(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t c = 0; c < s.dv; ++c) {
    const int64_t step = visible_keys(value, step_row(value, c));
    for (int64_t bh = 0; bh < s.B * s.Hkv; ++bh)
      for (int64_t j = 0; j < s.Tk; ++j)
        inputs.v[static_cast<size_t>((bh * s.Tk + j) * s.dv + c)] = j >= step;
  }
}

// Whether a score with such a bias may legitimately be infinite, in the units
// and the type that a kernel keeps it in. The row is then NaN, or one without a
// key, and does not show which keys it saw. Agreement judges it if the declared
// arithmetic keeps such scores finite.
bool bias_may_overflow(const Case& value, Dtype kept) {
  return value.score_bias && is_of_bias_alone(value.score_bias->kind) &&
         std::pow(10, static_cast<double>(value.score_bias->parameter)) >
             largest_finite(kept) / 4;
}

Case constrain(Case value) {
  if (bias_may_overflow(value, value.q_dtype))
    value.score_bias = make_recipe(RecipeKind::kNormal);
  return with_masked_key(std::move(value));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (rows_with_masked_keys(value) == 0) {
    plan.not_applicable = "the case masks no key: it needs causal and Tk > 1";
    return plan;
  }
  // The storage may hold numbers that the declared arithmetic cannot.
  if (may_overflow_in_f16(value, kernel) &&
      bias_may_overflow(value, Dtype::kF16)) {
    plan.not_applicable =
        "such a bias may be infinite in the f16 that the kernel declares";
    return plan;
  }
  PlannedCall call;
  call.edit = staircase;
  call.want_weights = wants_weights(kernel);
  plan.calls.push_back(call);
  return plan;
}

// Whether every row could be a mean of the values of its head, hidden ones
// included: its weights sum to 1, and channels that step up later get none. A
// row that sees a key of a step has a share of it, whatever else takes part.
// Values stored in another place break one of these.
bool are_means(const JudgeInput& input) {
  constexpr double kRounding = 1e-2;
  const Shape& s = input.value.shape;
  const std::vector<double> o =
      as_doubles(input.calls[0].outcome->o, input.value.o_dtype);
  for (int64_t row = 0; row < s.B * s.H * s.Tq; ++row) {
    const int64_t visible = visible_keys(input.value, row % s.Tq);
    const double* at = o.data() + row * s.dv;
    if (visible == 0) continue;
    for (int64_t c = 0; c < s.dv; ++c) {
      if (!(at[c] >= 0 && at[c] <= 1 + kRounding)) return false;
      const int64_t step = visible_keys(input.value, step_row(input.value, c));
      if (visible > step && at[c] == 0) return false;
      for (int64_t other = 0; other < s.dv; ++other)
        if (visible_keys(input.value, step_row(input.value, other)) >= step &&
            at[other] > at[c] + kRounding * at[c])
          return false;
    }
  }
  return true;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  compare_with_zero(
      input, input.calls[0], {TensorName::kO, TensorName::kWeights},
      [&](const Element& at) {
        const int64_t visible = visible_keys(value, at.i);
        if (visible == 0) return false;
        return at.tensor == TensorName::kO ? at.i <= step_row(value, at.x)
                                           : at.x >= visible;
      },
      "", judgement);
  if (judgement.finding && are_means(input))
    judgement.finding->looks =
        "a later key takes part: V is 1 there and 0 at every visible key";
  return judgement;
}

}  // namespace of_future_weights_are_zero

extern constinit const Law future_weights_are_zero{
    "future_weights_are_zero",
    "Future weights are exactly zero: what a row must not see adds nothing.",
    "w[i,j] = 0 for every masked j; so o[i,c] = 0 if V[j,c] = 0 at every "
    "visible j",
    "causal, with at least one masked key",
    "The softmax runs over the visible keys only.",
    "0 times anything finite is 0, and sums of zeros are zero in any order.",
    "(a) it is exact, (d) it needs no oracle",
    20,
    Domain{.causal = true,
           .free_v = false,
           .allows = QKVET_OPTION_ROPE | kAllowScores | kAllowMemory},
    of_future_weights_are_zero::constrain,
    of_future_weights_are_zero::plan,
    of_future_weights_are_zero::judge};

}  // namespace qkvet::properties
