// SPDX-License-Identifier: Apache-2.0
// The bounds of a call's outputs, for a diagnosis.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_gradient_calls.h"
#include "properties/checking/case_prepared.h"

namespace qkvet::properties {

CallBounds CaseWork::bounds(const JudgedKernel& kernel, size_t n,
                            const PrecisionModel& model) {
  const PlannedCall& planned = plan_for(kernel).calls[n];
  const PrecisionModel stored =
      for_storage(model, value_.kv_dtype, value_.o_dtype);
  Prepared& prepared = prepare(planned, kernel.info);
  CallBounds bounds;
  if (planned.operation == Operation::kLayer) {
    const LayerProblem layer = layer_problem(prepared.value, prepared.inputs);
    bounds.y = layer_bound(layer, plain_layer(layer), stored,
                           kernel.info.stage_dtype(prepared.value.q_dtype))
                   .y;
    return bounds;
  }
  if (prepared.gradient != nullptr) {
    prepared.gradient->find_truth(/*with_twin=*/false);
    const Truth& truth = prepared.gradient->truth_for(stored);
    for (const TensorName tensor : kGradients)
      bounds.gradients[tensor] = bound_of(truth.gradient->bound, tensor);
    return bounds;
  }
  if (planned.operation == Operation::kLayerBackward) {
    LayerGradientAnswer known(prepared.value, prepared.inputs);
    known.find_truth();
    const Dtype stage = kernel.info.stage_dtype(value_.q_dtype);
    const Truth& truth =
        known.truth_for(for_storage(model, stage, value_.o_dtype), stage);
    for (const TensorName tensor : kLayerGradients)
      if (!prepared.inputs.values(layer_input_of(tensor)).empty())
        bounds.gradients[tensor] =
            layer_gradient_of(truth.layer_gradient->bound.bound, tensor);
    return bounds;
  }
  const bool answers = planned.operation == Operation::kForward ||
                       planned.operation == Operation::kMerge ||
                       (planned.operation == Operation::kCacheStep &&
                        prepared.value.shape.Tq > 0);
  if (!answers || planned.expects_refusal) return bounds;
  const Truth& truth =
      answer(prepared, kernel.info)
          .truth_for(kernel.info, stored, planned.want_weights);
  const Bound& bound = *truth.bound;
  bounds.visible = truth.oracle.visible;
  bounds.o = bound.o;
  bounds.lse = bound.lse;
  if (planned.want_weights) bounds.weights = bound.weights;
  return bounds;
}

}  // namespace qkvet::properties
