// SPDX-License-Identifier: Apache-2.0
// The memory law of gradients of layers, as backward_reads_only_its_inputs is
// that of attention: the same call with every tensor flush against the guard
// page after it, the same but aligned, and flush against the one before it.
// This law owns all touched guard pages and canaries and all unwritten
// elements, whichever law made the call.
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_gradient_answer.h"
#include "properties/calls/layer_gradient_calls.h"
#include "properties/judging/gradient_judging.h"
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_layer_backward_reads_only_its_inputs {

// As there, the bound covers overflow in f16.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  for (int i = 0; i < kPlacementCount; ++i) {
    PlannedCall call = layer_backward_call(/*truth=*/i == 0 &&
                                           may_overflow_in_f16(value, kernel));
    call.placement = static_cast<Placement>(i);
    plan.calls.push_back(call);
  }
  return plan;
}

void compare_placements(const JudgeInput& input, TensorName tensor,
                        Judgement& judgement) {
  std::vector<std::vector<double>> outputs;
  for (const CallView& call : input.calls)
    outputs.push_back(read_layer_gradient(input, call, tensor));
  const Truth* const truth = input.calls[0].truth;
  const std::vector<double>* const bound =
      truth == nullptr
          ? nullptr
          : &layer_gradient_of(truth->layer_gradient->bound.bound, tensor);
  for (size_t n = 0; n < outputs[0].size(); ++n) {
    if (bound != nullptr && !std::isfinite((*bound)[n])) {
      ++judgement.vacuous;
      continue;
    }
    ++judgement.compared;
    auto finding = nan_in_one_placement(outputs, n, input.value.q_dtype);
    if (!finding) continue;
    finding->where =
        layer_gradient_name(input.value.shape, tensor, static_cast<int64_t>(n));
    add_failure(judgement, std::move(*finding));
    return;
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor : kLayerGradients)
    compare_placements(input, tensor, judgement);
  return judgement;
}

}  // namespace of_layer_backward_reads_only_its_inputs

extern constinit const Law layer_backward_reads_only_its_inputs{
    "layer_backward_reads_only_its_inputs",
    "layer_backward() reads only the bytes of its inputs, writes exactly the "
    "elements of its gradients, and leaves its caller's state as it was.",
    "read(addresses) in x, W, b, dy; written(addresses) = dx, dW, db",
    "none",
    "The call names all memory that takes part in it.",
    "Nothing is rounded: a byte is touched or it is not.",
    "(c) it reaches memory that no gradient shows",
    10,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    of_layer_backward_reads_only_its_inputs::plan,
    of_layer_backward_reads_only_its_inputs::judge};

}  // namespace qkvet::properties
