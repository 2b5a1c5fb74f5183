// SPDX-License-Identifier: Apache-2.0
// With x = 0 every projection is its bias, and with W_O = 0 the output is b_O.
#include <algorithm>

#include "core/base/half.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_every_bias_counts {

Case constrain(Case value) {
  value.x = value.w = {};  // x and W_O are 0; W_Q, W_K and W_V have no effect
  value.biases = kBiasQ | kBiasK | kBiasV | kBiasO;
  if (value.bias.kind == RecipeKind::kZero)
    value.bias = make_recipe(RecipeKind::kOne);
  return constrain_layer(std::move(value));
}

void only_biases(const Case&, int64_t, Inputs& inputs) {
  for (const TensorName tensor : {TensorName::kX, TensorName::kWo}) {
    std::vector<double>& values = inputs.values(tensor);
    std::fill(values.begin(), values.end(), 0.0);
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  const Shape& s = input.value.shape;
  // Stages may be narrower than x. Empty if they are not returned.
  const Dtype stage = stage_dtype(input);
  const auto compare = [&](TensorName output, TensorName bias, int64_t width) {
    const std::vector<double>& b = call.inputs->values(bias);
    compare_exactly(
        input, call, output,
        [&](const Element& at) {
          const double x = b[static_cast<size_t>(at.h * width + at.x)];
          return output == TensorName::kY ? x : round_to(stage, x);
        },
        judgement);
  };
  compare(TensorName::kStageQ, TensorName::kBq, s.d);
  compare(TensorName::kStageK, TensorName::kBk, s.d);
  compare(TensorName::kStageV, TensorName::kBv, s.dv);
  compare(TensorName::kY, TensorName::kBo, s.D);
  return judgement;
}

}  // namespace of_every_bias_counts

extern constinit const Law every_bias_counts{
    "every_bias_counts",
    "Every bias counts: with x = 0 the projections are b_Q, b_K and b_V, and "
    "with W_O = 0 the output is b_O.",
    "x = 0: q = b_Q, k = b_K, v = b_V; W_O = 0: y = b_O",
    "all four biases are given",
    "A product with 0 adds nothing.",
    "Products with 0 and sums with 0 are exact.",
    "(a) it is exact",
    40,
    Domain{.subject = Subject::kLayer, .free_data = false},
    of_every_bias_counts::constrain,
    plan_one_call<of_every_bias_counts::only_biases>,
    of_every_bias_counts::judge};

}  // namespace qkvet::properties
