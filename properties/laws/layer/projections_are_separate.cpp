// SPDX-License-Identifier: Apache-2.0
// One matrix at a time is set to 0: its own projection is then 0, exactly, and
// the two others stay as they were.
#include <algorithm>

#include "properties/calls/call_pairs.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_stages.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_projections_are_separate {

constexpr TensorName kMatrices[] = {TensorName::kWq, TensorName::kWk,
                                    TensorName::kWv};

void without_matrix(const Case&, int64_t argument, Inputs& inputs) {
  std::vector<double>& w = inputs.values(kMatrices[argument]);
  std::fill(w.begin(), w.end(), 0.0);
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  if (!returns_stages(kernel)) {
    plan.unsupported = "the layer returns no stages";
    return plan;
  }
  plan.calls.push_back(layer_call(kernel));
  for (int64_t i = 0; i < 3; ++i) {
    PlannedCall call = layer_call(kernel);
    call.edit = without_matrix;
    call.argument = i;
    plan.calls.push_back(call);
  }
  return plan;
}

// Output `stage` of the call with matrix `zeroed` 0: 0 exactly if that is its
// own, unchanged otherwise.
void compare_stage(const JudgeInput& input, size_t zeroed, size_t stage,
                   const ProjectedStage* wanted, Judgement& judgement) {
  const TensorName tensor = kStages.begin()[stage];
  CallOutput own = output_of(input, input.calls[0], tensor);
  CallOutput other = output_of(input, input.calls[zeroed + 1], tensor);
  if (wanted != nullptr)
    own.truth = other.truth = {&wanted->truth, &wanted->bound, &wanted->reach};
  for (size_t n = 0; n < other.values.size(); ++n) {
    auto finding =
        wanted == nullptr
            ? compare_exactly(other.values[n],
                              stage == zeroed ? 0 : own.values[n], own.dtype,
                              judgement)
            : compare_two_ways(other, n, "with another matrix 0", own, n,
                               "with its own values", {}, judgement);
    if (!finding) continue;
    finding->where = own.grid.name(n) + " with W_" + "QKV"[zeroed] + " = 0";
    add_failure(judgement, std::move(*finding));
    return;
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const bool bitwise =
      claims_same_bits(input.kernel, QKVET_FLAG_OTHER_DATA_INVARIANT);
  for (size_t stage = 0; stage < kStages.size(); ++stage) {
    const ProjectedStage wanted =
        bitwise ? ProjectedStage{} : stage_of(input, stage);
    for (size_t zeroed = 0; zeroed < 3; ++zeroed) {
      const bool exact = bitwise || stage == zeroed;
      compare_stage(input, zeroed, stage, exact ? nullptr : &wanted, judgement);
    }
  }
  return judgement;
}

}  // namespace of_projections_are_separate

extern constinit const Law projections_are_separate{
    "projections_are_separate",
    "q, k and v come from their own matrices: W_Q moves q alone, W_K k, W_V v.",
    "W_Q = 0: q = 0, k and v as before; alike for W_K, W_V",
    "the layer returns its stages; no biases",
    "Each projection names one matrix.",
    "Products with 0 are exact; the others keep every bit where the kernel "
    "declares other_data_invariant, else each is within its own bound.",
    "(a) it is exact",
    30,
    Domain{.subject = Subject::kLayer, .free_data = false},
    constrain_without_biases,
    of_projections_are_separate::plan,
    of_projections_are_separate::judge};

}  // namespace qkvet::properties
