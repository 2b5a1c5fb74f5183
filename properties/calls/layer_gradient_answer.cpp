// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_gradient_answer.h"

#include "properties/calls/layer_calls.h"

namespace qkvet::properties {

LayerGradientAnswer::LayerGradientAnswer(const Case& value,
                                         const Inputs& inputs)
    : problem_{layer_problem(value, inputs), inputs.d_y.data()} {}

void LayerGradientAnswer::find_truth() {
  if (forward_) return;
  forward_ = plain_layer(problem_.forward);
  truth_ = plain_layer_backward(problem_);
}

const Truth& LayerGradientAnswer::truth_for(const PrecisionModel& model,
                                            Dtype stage) {
  for (const auto& known : known_)
    if (known->model == model && known->stage == stage) return known->truth;
  auto known = std::make_unique<Known>();
  known->model = model;
  known->stage = stage;
  known->gradient.problem = &problem_;
  known->gradient.values = truth_;
  known->gradient.bound =
      layer_backward_bound(problem_, *forward_, truth_, model, stage);
  known->gradient.changes = &changes_;
  known->truth.layer_gradient = &known->gradient;
  known_.push_back(std::move(known));
  return known_.back()->truth;
}

}  // namespace qkvet::properties
