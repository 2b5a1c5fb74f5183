// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/call_pairs.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_scale_moves_to_queries {

constexpr double kFactor = 8;

// One case in four changes the sign, too. A kernel may refuse a negative scale;
// the other cases are still asked.
double factor_of(const Case& value) {
  return value.seed % 4 == 3 ? -kFactor : kFactor;
}

void scale_queries(const Case& value, int64_t, Inputs& inputs) {
  for (double& x : inputs.q) x *= factor_of(value);
}

// Finite in half storage on both sides, and far from underflow.
bool is_moderate(const Recipe& recipe) {
  switch (recipe.kind) {
    case RecipeKind::kNormal:
    case RecipeKind::kZero:
    case RecipeKind::kOne:
    case RecipeKind::kLattice:
    case RecipeKind::kCount:
    case RecipeKind::kOnehotN:
      return true;
    default:
      return false;
  }
}

// A kernel may add the bias before the scale, divided by it. A bias near the
// end of f32 then overflows on one of the two sides.
bool is_far_from_overflow(const Recipe& bias) {
  return !is_of_bias_alone(bias.kind) ||
         std::fabs(masking_number(bias)) < 0x1p40;
}

Case constrain(Case value) {
  if (value.score_bias && !is_far_from_overflow(*value.score_bias))
    value.score_bias = make_recipe(RecipeKind::kMaskingN);
  for (Recipe* recipe : {&value.q, &value.k})
    if (!is_moderate(*recipe)) *recipe = make_recipe(RecipeKind::kNormal);
  value = without_set_values(std::move(value), TensorName::kQ);
  value = without_set_values(std::move(value), TensorName::kK);
  const float scale = std::fabs(value.scale.value_or(0));
  if (!(scale > 0x1p-40f && scale < 0x1p40f)) value.scale = 1.0f;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_power_of_two(kernel, scale_queries);
  Case& variant = plan.calls[1].variant.emplace(value);
  variant.scale = static_cast<float>(double{*value.scale} / factor_of(value));
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "q and the scale as given";
  pair.second_name = factor_of(input.value) > 0
                         ? "8 q and an eighth of the scale"
                         : "-8 q and minus an eighth of the scale";
  pair.looks = "the scale is ignored, fixed, or rounded on the way";
  compare_as_claimed(input, pair, QKVET_FLAG_POWER_OF_TWO_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_scale_moves_to_queries

extern constinit const Law scale_moves_to_queries{
    "scale_moves_to_queries",
    "A factor moves between the queries and the scale: 8 q with an "
    "eighth of the scale gives the same, and so does -8 q with minus an "
    "eighth.",
    "forward(8 q, k, v, c / 8) = forward(q, k, v, c), the same for -8",
    "a given scale; data of moderate size",
    "Only the product of q and the scale occurs in the scores.",
    "Each side is within its own bound of the same number; bit for bit where "
    "the kernel declares power_of_two_invariant.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    180,
    Domain{.allows = kAllowAll & ~QKVET_OPTION_ROPE},
    of_scale_moves_to_queries::constrain,
    of_scale_moves_to_queries::plan,
    of_scale_moves_to_queries::judge};

}  // namespace qkvet::properties
