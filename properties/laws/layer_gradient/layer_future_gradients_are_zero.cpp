// SPDX-License-Identifier: Apache-2.0
// dy is kept in the rows of one member up to a chosen one, and zero everywhere
// else. Then x of every other member has no gradient, nor, with a causal mask,
// x of the later rows.
#include <algorithm>

#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_layer_future_gradients_are_zero {

struct Kept {
  int64_t b, last;  // rows 0 .. last of member b

  // Whether y of the kept rows depends on x of row t of this member.
  bool reads(const Case& value, int64_t member, int64_t t) const {
    return member == b && (value.causal == Causal::kNone || t <= last);
  }
};

Kept kept_of(const Case& value) {
  const Shape& s = value.shape;
  return {pick_by_seed(value.seed, s.B),
          s.Tq > 1 ? pick_by_seed(value.seed / 4, s.Tq - 1) : 0};
}

void silence_rows(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Kept kept = kept_of(value);
  for (int64_t row = 0; row < s.B * s.Tq; ++row)
    if (row / s.Tq != kept.b || row % s.Tq > kept.last)
      std::fill_n(inputs.d_y.begin() + row * s.D, s.D, 0.0);
}

// Numbers with finite products, so that 0 times them is 0; and a row that no
// gradient may reach.
Case constrain(Case value) {
  for (Recipe* recipe : {&value.x, &value.w, &value.bias, &value.d_o})
    if (recipe->kind == RecipeKind::kFile || recipe->kind == RecipeKind::kHeavy)
      *recipe = make_recipe(RecipeKind::kNormal);
  value.set.clear();
  value = constrain_layer(std::move(value));
  if (value.shape.B > 1) return value;
  value.causal = Causal::kBottomRight;
  value.shape.Tq = value.shape.Tk = std::max<int64_t>(value.shape.Tq, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  plan.calls.push_back(layer_backward_call(/*truth=*/false, silence_rows));
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Kept kept = kept_of(input.value);
  compare_with_zero(
      input, input.calls[0], {TensorName::kDX},
      [&](const Element& at) { return !kept.reads(input.value, at.b, at.i); },
      "dy is zero in every row that may see this one: what flows here comes "
      "from a row that must not see it",
      judgement);
  return judgement;
}

}  // namespace of_layer_future_gradients_are_zero

extern constinit const Law layer_future_gradients_are_zero{
    "layer_future_gradients_are_zero",
    "No gradient of a layer flows into the future, nor into another member of "
    "the batch.",
    "dy[b,i] = 0 wherever row (b,i) sees row (b,t) => dx[b,t] = 0",
    "causal with more than one row, or more than one member; data of moderate "
    "size",
    "Every term of dx[b,t] has dy of a row that sees row (b,t) as a factor.",
    "0 times anything finite is 0, and sums of zeros are zero in any order.",
    "(a) it is exact, (d) it needs no oracle",
    20,
    Domain{.subject = Subject::kLayerBackward,
           .free_data = false,
           .allows = kLayerOptions},
    of_layer_future_gradients_are_zero::constrain,
    of_layer_future_gradients_are_zero::plan,
    of_layer_future_gradients_are_zero::judge};

}  // namespace qkvet::properties
