// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_mask_equals_bias {

// The term added to the score of hidden pair `n`: -infinity, or a number that
// is in use, such as the lowest of the type; one for all pairs, or one for
// each. Even if scores differ by half of the first, exp() of the rest is 0 in
// double: both calls have one truth.
double hidden_of(const Case& value, uint64_t n) {
  const double lowest = -largest_finite(value.q_dtype);  // that of a bias
  const std::array<double, 4> numbers = {
      -1e4, std::max(-1e9, lowest), lowest,
      -std::numeric_limits<double>::infinity()};
  const uint64_t which = value.seed % (numbers.size() + 1);
  return numbers[which < numbers.size() ? which
                                        : (n * 7 + n / 5) % numbers.size()];
}
constexpr double kLargestScore = 2000;

bool is_moderate(const Recipe& recipe) {
  switch (recipe.kind) {
    case RecipeKind::kLargeN:
    case RecipeKind::kOffsetN:
    case RecipeKind::kDominantN:
    case RecipeKind::kHeavy:
    case RecipeKind::kAscendingN:
    case RecipeKind::kDescendingN:
    case RecipeKind::kCancellingN:
      return false;
    default:
      return true;
  }
}

Case constrain(Case value) {
  for (Recipe* recipe : {&value.q, &value.k})
    if (!is_moderate(*recipe)) *recipe = make_recipe(RecipeKind::kNormal);
  value = without_set_values(std::move(value), TensorName::kQ);
  value = without_set_values(std::move(value), TensorName::kK);
  if (value.mask.kind == MaskKind::kNone)
    value.mask = {MaskKind::kButN, 0, kOwnAll};
  return value;
}

void mask_to_bias(const Case& value, int64_t, Inputs& inputs) {
  inputs.bias.clear();
  for (const uint8_t attends : inputs.mask)
    inputs.bias.push_back(attends != 0 ? 0
                                       : hidden_of(value, inputs.bias.size()));
  inputs.mask.clear();
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_two_forms(kernel, with_bias_for_mask(value), mask_to_bias);
  // Elements of q and k are below 8 in size.
  const double largest =
      std::fabs(scale_of(value)) * 64 * static_cast<double>(value.shape.d);
  if (largest > kLargestScore &&
      !(value.q.kind == RecipeKind::kZero || value.k.kind == RecipeKind::kZero))
    plan.not_applicable = "scores may be of the size of the bias";
  if (!kernel.has_option(QKVET_OPTION_BIAS))
    plan.unsupported = "a bias is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "a mask";
  pair.second_name = "a bias of 0 and a number far below all scores";
  pair.looks = "mask and bias do not hide the same keys";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_mask_equals_bias

extern constinit const Law mask_equals_bias{
    "mask_equals_bias",
    "A mask equals a bias of 0 where a pair attends and of -10000, -1e9, the "
    "lowest number of the type or -infinity where it does not, be it one of "
    "them or another one at every pair.",
    "forward(mask) = forward(bias), bias = mask ? 0 : -10000 or lower",
    "a mask; rows that see a key; moderate scores; the kernel takes a bias as "
    "well",
    "exp(-10000 + what scores can differ by) is 0.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    390,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_SINK |
                     kAllowMemory,
           .about = QKVET_OPTION_MASK},
    of_mask_equals_bias::constrain,
    of_mask_equals_bias::plan,
    of_mask_equals_bias::judge};

}  // namespace qkvet::properties
