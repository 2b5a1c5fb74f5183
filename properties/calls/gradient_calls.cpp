// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"

namespace qkvet::properties {

PlannedCall backward_call(bool truth, InputEdit edit) {
  PlannedCall call;
  call.operation = Operation::kBackward;
  call.needs_truth = truth;
  call.edit = edit;
  return call;
}

PlannedCall layer_backward_call(bool truth, InputEdit edit) {
  PlannedCall call = backward_call(truth, edit);
  call.operation = Operation::kLayerBackward;
  return call;
}

Case with_moderate_data(Case value) {
  const auto moderate = [](Recipe& recipe) {
    switch (recipe.kind) {
      case RecipeKind::kAscendingN:
      case RecipeKind::kDescendingN:
      case RecipeKind::kDominantN:
      case RecipeKind::kLargeN:
      case RecipeKind::kOffsetN:
      case RecipeKind::kHeavy:
      case RecipeKind::kFile:
        recipe = make_recipe(RecipeKind::kNormal);
        break;
      default:
        break;
    }
  };
  for (Recipe* recipe : {&value.q, &value.k, &value.v, &value.d_o})
    moderate(*recipe);
  for (auto* recipe : {&value.score_bias, &value.sink, &value.slopes})
    if (*recipe) moderate(**recipe);
  value.set.clear();
  return value;
}

}  // namespace qkvet::properties
