// SPDX-License-Identifier: Apache-2.0
// The weights that a layer returns: those of a row sum to one. The errors of
// the scores cancel in the sum, so its bound is far tighter than that of a
// single weight.
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_stages.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_layer_weights_sum_to_one {

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  if (!returns_weights(kernel)) {
    plan.unsupported = "the layer returns no weights";
    return plan;
  }
  if (!returns_stages(kernel)) {
    plan.unsupported = "the layer returns no stages";
    return plan;
  }
  plan.calls.push_back(layer_call(kernel));
  plan.calls[0].want_weights = true;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  const Shape& s = input.value.shape;
  const AttendedStage attended =
      attended_stage(input, call, input.value.o_dtype, /*weights=*/true);
  const std::vector<double> weights =
      as_doubles(call.outcome->weights, input.value.o_dtype);
  for (size_t row = 0; row < attended.bound.row_sum.size(); ++row) {
    double sum = 0;  // in double: its own error is far below the bound
    for (size_t j = 0; j < static_cast<size_t>(s.Tk); ++j)
      sum += weights[row * static_cast<size_t>(s.Tk) + j];
    compare_sum_with_one(s, static_cast<int64_t>(row), sum,
                         attended.bound.row_sum[row], judgement);
  }
  return judgement;
}

}  // namespace of_layer_weights_sum_to_one

extern constinit const Law layer_weights_sum_to_one{
    "layer_weights_sum_to_one",
    "The weights that a layer returns sum to one, row by row.",
    "sum over j of weights[b,h,i,j] = 1",
    "the layer returns its weights and its stages",
    "The softmax divides by the sum of what it divides.",
    "Scores and exponentials are the same in numerator and denominator; only "
    "the sum, the division and the storage round.",
    "(b) the errors of the scores cancel, (d) it needs no oracle",
    80,
    Domain{.subject = Subject::kLayer, .allows = kLayerOptions},
    constrain_layer,
    of_layer_weights_sum_to_one::plan,
    of_layer_weights_sum_to_one::judge};

}  // namespace qkvet::properties
