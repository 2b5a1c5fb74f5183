// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_stages.h"

#include <algorithm>
#include <cmath>

#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {
namespace {

constexpr Projection kProjections[] = {Projection::kQ, Projection::kK,
                                       Projection::kV};

// y on the heads that the kernel returned.
void compare_output(const JudgeInput& input, const LayerProblem& problem,
                    const std::vector<double>& attended, Judgement& judgement) {
  const Dtype dtype = input.value.o_dtype;
  const std::vector<double> merged = merge_heads(problem.shape, attended);
  const LinearProblem linear =
      projection_stage(problem, Projection::kO, merged.data());
  const std::vector<double> truth = plain_linear(linear);
  const LinearBound bound =
      linear_bound(linear, truth, for_storage(input.model, dtype, dtype));
  compare_with_truth(input, input.calls[0], TensorName::kY,
                     {&truth, &bound.bound, &bound.reach}, judgement);
}

// Without stages, only X and Y are available.
void compare_whole(const JudgeInput& input, const LayerProblem& problem,
                   Judgement& judgement) {
  const Dtype stage = stage_dtype(input);
  const LayerOutput oracle = plain_layer(problem);
  const LayerBound bound =
      layer_bound(problem, oracle,
                  for_storage(input.model, stage, input.value.o_dtype), stage);
  compare_with_truth(input, input.calls[0], TensorName::kY,
                     {&oracle.y, &bound.y, &bound.reach}, judgement);
}

bool is_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

bool failed(const std::vector<StageJudgement>& stages) {
  return std::any_of(stages.begin(), stages.end(),
                     [](const StageJudgement& stage) {
                       return stage.judgement.verdict == Verdict::kFailed;
                     });
}

}  // namespace

ProjectedStage stage_of(const JudgeInput& input, size_t n) {
  const Dtype dtype = stage_dtype(input);
  return projected_stage(layer_problem(input.value, *input.calls[0].inputs),
                         kProjections[n],
                         for_storage(input.model, dtype, dtype), dtype);
}

AttendedStage attended_stage(const JudgeInput& input, const CallView& call,
                             Dtype stored, bool weights) {
  std::vector<std::vector<double>> stages;
  for (const TensorName stage : kStages)
    stages.push_back(read_output(input, call, stage));
  const Problem attention =
      attention_stage(layer_problem(input.value, *call.inputs),
                      stages[0].data(), stages[1].data(), stages[2].data());
  AttendedStage out;
  out.oracle = plain_forward(attention);
  const BoundFacts facts(attention, out.oracle);
  out.bound = compute_bound(
      facts, for_storage(input.model, stage_dtype(input), stored), weights);
  out.reach = facts.reach();
  return out;
}

std::vector<StageJudgement> judge_layer_stages(const JudgeInput& input,
                                               WrongStage wrong) {
  std::vector<StageJudgement> judged;
  const auto add = [&](TensorName stage) -> Judgement& {
    judged.push_back({tensor_name(stage), {}});
    return judged.back().judgement;
  };
  const CallView& call = input.calls[0];
  const LayerProblem problem = layer_problem(input.value, *call.inputs);
  if (!call.planned->want_stages) {
    compare_whole(input, problem, add(TensorName::kY));
    return judged;
  }
  bool finite = true;
  size_t n = 0;
  for (const TensorName tensor : kStages) {
    const ProjectedStage wanted = stage_of(input, n++);
    compare_with_truth(input, call, tensor,
                       {&wanted.truth, &wanted.bound, &wanted.reach},
                       add(tensor));
    finite = finite && is_finite(read_output(input, call, tensor));
  }
  const auto ends = [&] {
    return failed(judged) && (wrong == WrongStage::kEndsThere || !finite);
  };
  if (ends()) return judged;
  // Attention on the q, k and v that the kernel returned.
  const AttendedStage wanted =
      attended_stage(input, call, stage_dtype(input), /*weights=*/false);
  compare_with_truth(input, call, TensorName::kAttended,
                     {&wanted.oracle.o, &wanted.bound.o, &wanted.reach},
                     add(TensorName::kAttended));
  if (!call.outcome->weights.empty()) {
    // Stored as y is.
    const AttendedStage shown =
        attended_stage(input, call, input.value.o_dtype, /*weights=*/true);
    compare_with_truth(input, call, TensorName::kWeights,
                       {&shown.oracle.weights, &shown.bound.weights},
                       add(TensorName::kWeights));
  }
  const std::vector<double> attended =
      read_output(input, call, TensorName::kAttended);
  finite = finite && is_finite(attended);
  if (ends()) return judged;
  compare_output(input, problem, attended, add(TensorName::kY));
  return judged;
}

Judgement judge_layer(const JudgeInput& input) {
  Judgement all;
  for (StageJudgement& stage :
       judge_layer_stages(input, WrongStage::kEndsThere)) {
    Judgement& one = stage.judgement;
    add_counts(all, one);
    if (one.verdict == Verdict::kGaveUp) return one;
    if (one.finding) add_failure(all, std::move(*one.finding));
  }
  return all;
}

}  // namespace qkvet::properties
