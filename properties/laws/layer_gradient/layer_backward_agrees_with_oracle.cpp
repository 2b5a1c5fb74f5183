// SPDX-License-Identifier: Apache-2.0
// The general law about gradients of layers, and the last one: every element
// within the bound of the declared arithmetic, from end to end.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
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
  compare_with_truth(input, input.calls[0], judgement);
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
