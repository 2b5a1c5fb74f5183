// SPDX-License-Identifier: Apache-2.0
// The general law about layers, stage by stage (layer_stages.h). The first
// wrong stage is the result: later ones are not judged.
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_stages.h"

namespace qkvet::properties {
namespace of_layer_agrees_with_oracle {

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.calls.push_back(layer_call(kernel));
  plan.calls[0].want_weights =
      returns_weights(kernel) && plan.calls[0].want_stages;
  return plan;
}

}  // namespace of_layer_agrees_with_oracle

extern constinit const Law layer_agrees_with_oracle{
    "layer_agrees_with_oracle",
    "Every stage of a layer, from x over q, k, v and the heads to y, and the "
    "weights that it returns, is within "
    "what the declared arithmetic allows.",
    "RN(stage(in) - B) <= out <= RN(stage(in) + B), in = what the kernel gave "
    "to the stage",
    "none; without stages y alone is judged, from end to end",
    "y is the composition of its stages.",
    "B is derived for each stage from its own inputs (reference/bounds.md).",
    "(c) it reaches every input and every element",
    90,
    Domain{.subject = Subject::kLayer, .allows = kLayerOptions},
    constrain_layer,
    of_layer_agrees_with_oracle::plan,
    judge_layer};

}  // namespace qkvet::properties
