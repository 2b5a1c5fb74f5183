// SPDX-License-Identifier: Apache-2.0
// One matrix at a time is set to 0: its own projection is 0 then, exactly, and
// the two others keep every bit.
#include <algorithm>

#include "properties/compare.h"
#include "properties/law.h"
#include "properties/layer_calls.h"

namespace qkvet {
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
    plan.not_applicable = "the layer returns no stages";
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

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const std::vector<Stage> own = read_stages(input, input.calls[0]);
  const bool repeatable = !input.kernel.has_flag(QKVET_FLAG_NONDETERMINISTIC);
  for (size_t zeroed = 0; zeroed < 3; ++zeroed) {
    const auto stages = read_stages(input, input.calls[zeroed + 1]);
    for (size_t i = 0; i < stages.size(); ++i) {
      if (i != zeroed && !repeatable) continue;
      for (size_t n = 0; n < stages[i].values.size(); ++n) {
        auto finding = compare_exactly(stages[i].values[n],
                                       i == zeroed ? 0 : own[i].values[n],
                                       stage_dtype(input), judgement);
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
    "Products with 0 are exact; the same projection twice gives the same bits.",
    "(a) it is exact",
    Aim{.subject = Subject::kLayer, .free_data = false},
    fit_without_biases,
    of_projections_are_separate::plan,
    of_projections_are_separate::judge};

}  // namespace qkvet
