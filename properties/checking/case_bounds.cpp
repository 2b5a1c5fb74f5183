// SPDX-License-Identifier: Apache-2.0
// The bounds of a call's outputs, for a diagnosis.
#include "properties/checking/case_prepared.h"
#include "properties/judging/outputs.h"

namespace qkvet::properties {

CallBounds CaseWork::bounds(const JudgedKernel& kernel, size_t n,
                            const PrecisionModel& model) {
  const PlannedCall& planned = plan_for(kernel).calls[n];
  Prepared& prepared = prepare(planned, kernel.info);
  const Case& value = prepared.value;
  CallBounds bounds;
  if (planned.operation == Operation::kLayer) {
    const LayerProblem layer = layer_problem(value, prepared.inputs);
    bounds.outputs[TensorName::kY] =
        layer_bound(layer, plain_layer(layer),
                    for_storage(model, value.kv_dtype, value.o_dtype),
                    kernel.info.stage_dtype(value.q_dtype))
            .y;
    return bounds;
  }
  const bool answers =
      planned.operation == Operation::kForward ||
      planned.operation == Operation::kMerge ||
      planned.operation == Operation::kBackward ||
      planned.operation == Operation::kLayerBackward ||
      (planned.operation == Operation::kCacheStep && value.shape.Tq > 0);
  if (!answers || planned.expects_refusal) return bounds;
  const Truth& truth = truth_for(planned, prepared, kernel.info, model);
  if (truth.gradient == nullptr) bounds.visible = truth.oracle.visible;
  for (const TensorName output : outputs_of(value.subject()))
    if (const auto* bound = truth_of_output(&truth, output).bound)
      bounds.outputs[output] = *bound;
  return bounds;
}

}  // namespace qkvet::properties
