// SPDX-License-Identifier: Apache-2.0
// The memory law of gradients: the same call with every tensor flush against
// the guard page after it, the same but aligned, and flush against the guard
// page before it. This law owns all touched guard pages, inputs and canaries,
// and all elements that were never written, whichever law about gradients made
// the call.
#include "properties/calls/gradient_calls.h"
#include "properties/judging/gradient_judging.h"
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_backward_reads_only_its_inputs {

// In f16 a stage may overflow on the path of one placement and not on that of
// another: the bound shows where that is allowed.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  for (int i = 0; i < kPlacementCount; ++i) {
    PlannedCall call =
        backward_call(/*truth=*/i == 0 && may_overflow_in_f16(value, kernel));
    call.placement = static_cast<Placement>(i);
    plan.calls.push_back(call);
  }
  return plan;
}

void compare_placements(const JudgeInput& input, TensorName tensor,
                        Judgement& judgement) {
  std::vector<std::vector<double>> outputs;
  for (const CallView& call : input.calls)
    outputs.push_back(read_gradient(input, call, tensor));
  const Dtype dtype = storage_type(input.value, tensor);
  const Truth* const truth = input.calls[0].truth;
  const std::vector<double>* const bound =
      truth == nullptr ? nullptr : &bound_of(truth->gradient->bound, tensor);
  for (size_t n = 0; n < outputs[0].size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    if (!gradient_counts(input.value,
                         gradient_element(input.value.shape, tensor, at)))
      continue;
    if (bound != nullptr && !std::isfinite((*bound)[n])) {
      ++judgement.vacuous;
      continue;
    }
    ++judgement.compared;
    auto finding = nan_in_one_placement(outputs, n, dtype);
    if (!finding) continue;
    finding->where = gradient_name(input.value.shape, tensor, at);
    add_failure(judgement, std::move(*finding));
    return;
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor : kGradients)
    compare_placements(input, tensor, judgement);
  return judgement;
}

}  // namespace of_backward_reads_only_its_inputs

extern constinit const Law backward_reads_only_its_inputs{
    "backward_reads_only_its_inputs",
    "backward() reads only the bytes of its inputs, o and lse among them, "
    "writes exactly the elements of its gradients, and leaves its caller's "
    "state as it was.",
    "read(addresses) in q, k, v, o, lse, dO; written(addresses) = dq, dk, dv",
    "none",
    "The call names all memory that takes part in it.",
    "Nothing is rounded: a byte is touched or it is not.",
    "(c) it reaches memory that no gradient shows",
    10,
    Domain{.subject = Subject::kBackward,
           .allows = kAllowGradients | QKVET_OPTION_EMPTY_EXTENTS},
    as_it_is,
    of_backward_reads_only_its_inputs::plan,
    of_backward_reads_only_its_inputs::judge};

}  // namespace qkvet::properties
