// SPDX-License-Identifier: Apache-2.0
// One matrix at a time is set to 0: its own projection is then 0, exactly, and
// the two others stay as they were.
#include <algorithm>

#include "properties/calls/call_pairs.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

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

// One element of a projection that should be `expected`: 0 exactly if its own
// matrix is, and unchanged otherwise.
std::optional<Finding> compare_element(const JudgeInput& input, double actual,
                                       double own, const ProjectedStage* bound,
                                       size_t n, Judgement& judgement) {
  const Dtype dtype = stage_dtype(input);
  if (bound == nullptr) return compare_exactly(actual, own, dtype, judgement);
  return compare_two_ways(
      {actual, own, 2 * bound->bound[n], bound->reach[n], dtype,
       "with another matrix 0", "with its own values"},
      judgement);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  constexpr Projection kProjections[] = {Projection::kQ, Projection::kK,
                                         Projection::kV};
  const bool bitwise =
      claims_same_bits(input.kernel, QKVET_FLAG_OTHER_DATA_INVARIANT);
  const std::vector<Stage> own = read_stages(input, input.calls[0]);
  const Dtype dtype = stage_dtype(input);
  std::vector<ProjectedStage> bounds;
  for (size_t i = 0; !bitwise && i < own.size(); ++i)
    bounds.push_back(projected_stage(
        layer_problem(input.value, *input.calls[0].inputs), kProjections[i],
        for_storage(input.model, dtype, dtype), dtype));
  for (size_t zeroed = 0; zeroed < 3; ++zeroed) {
    const auto stages = read_stages(input, input.calls[zeroed + 1]);
    for (size_t i = 0; i < stages.size(); ++i) {
      const bool exact = i == zeroed || bitwise;
      for (size_t n = 0; n < stages[i].values.size(); ++n) {
        auto finding = compare_element(
            input, stages[i].values[n], i == zeroed ? 0 : own[i].values[n],
            exact ? nullptr : &bounds[i], n, judgement);
        if (!finding) continue;
        finding->where =
            stages[i].layout.name(stages[i].name, static_cast<int64_t>(n)) +
            " with W_" + "QKV"[zeroed] + " = 0";
        add_failure(judgement, std::move(*finding));
        return judgement;
      }
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
