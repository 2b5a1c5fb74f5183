// SPDX-License-Identifier: Apache-2.0
// The general law about gradients of layers, and the last one: every element
// within the bound of the declared arithmetic, from end to end.
#include <cmath>

#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_gradient_answer.h"
#include "properties/calls/layer_gradient_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_layer_backward_agrees_with_oracle {

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  plan.calls.push_back(layer_backward_call(/*truth=*/true));
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  const LayerGradientTruth& known = *call.truth->layer_gradient;
  for (const TensorName tensor : kLayerGradients) {
    const std::vector<double> actual = read_layer_gradient(input, call, tensor);
    const auto& truth = layer_gradient_of(known.values, tensor);
    const auto& bound = layer_gradient_of(known.bound.bound, tensor);
    const auto& reach = layer_gradient_of(known.bound.reach, tensor);
    for (size_t n = 0; n < actual.size(); ++n) {
      if (std::isnan(bound[n])) {
        judgement.verdict = Verdict::kGaveUp;
        judgement.reason = "the bound is NaN: a defect of QKVet, please report";
        return judgement;
      }
      auto finding = compare_with_bound({actual[n],
                                         truth[n],
                                         bound[n],
                                         reach[n],
                                         input.value.q_dtype,
                                         /*before_rounding=*/true,
                                         {tensor, static_cast<int64_t>(n), 0}},
                                        judgement);
      if (!finding) continue;
      finding->where = layer_gradient_name(input.value.shape, tensor,
                                           static_cast<int64_t>(n));
      add_failure(judgement, std::move(*finding));
    }
  }
  return judgement;
}

}  // namespace of_layer_backward_agrees_with_oracle

extern constinit const Law layer_backward_agrees_with_oracle{
    "layer_backward_agrees_with_oracle",
    "The gradients of x and of every parameter of a layer are within what the "
    "declared arithmetic allows.",
    "RN(g - B) <= y <= RN(g + B), g = dx, dw_q .. dw_o, db_q .. db_o",
    "none",
    "g is the derivative of the layer, computed in double.",
    "B is derived from the inputs and dy, from end to end "
    "(reference/bounds.md).",
    "(c) it reaches every input and every element",
    50,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    of_layer_backward_agrees_with_oracle::plan,
    of_layer_backward_agrees_with_oracle::judge};

}  // namespace qkvet::properties
