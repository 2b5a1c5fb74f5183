// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_stages.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {
namespace {

using Name = std::function<std::string(int64_t)>;

// One stage's numbers against the oracle's.
void compare_all(TensorName tensor, const std::vector<double>& actual,
                 const std::vector<double>& truth,
                 const std::vector<double>& bound,
                 const std::vector<double>& reach, Dtype dtype,
                 const Name& name, Judgement& judgement) {
  for (size_t n = 0; n < actual.size(); ++n) {
    auto finding = compare_with_bound({actual[n],
                                       truth[n],
                                       bound[n],
                                       reach[n],
                                       dtype,
                                       /*before_rounding=*/false,
                                       {tensor, static_cast<int64_t>(n), 0}},
                                      judgement);
    if (!finding) continue;
    finding->where = name(static_cast<int64_t>(n));
    add_failure(judgement, std::move(*finding));
  }
}

// q, k or v on the x of the call.
void compare_projection(const JudgeInput& input, const LayerProblem& problem,
                        Projection which, const Stage& stage,
                        Judgement& judgement) {
  const Dtype dtype = stage_dtype(input);
  const ProjectedStage wanted = projected_stage(
      problem, which, for_storage(input.model, dtype, dtype), dtype);
  constexpr TensorName kNames[] = {TensorName::kStageQ, TensorName::kStageK,
                                   TensorName::kStageV};
  compare_all(
      kNames[static_cast<size_t>(which)], stage.values, wanted.truth,
      wanted.bound, wanted.reach, dtype,
      [&](int64_t n) { return stage.layout.name(stage.name, n); }, judgement);
}

// Attention on the q, k and v that the kernel returned.
void compare_attention(const JudgeInput& input,
                       const std::vector<double>& attended,
                       Judgement& judgement) {
  const Dtype dtype = stage_dtype(input);
  const AttendedStage wanted =
      attended_stage(input, input.calls[0], dtype, /*weights=*/false);
  const StageLayout layout = attended_layout(input.value.shape);
  compare_all(
      TensorName::kAttended, attended, wanted.oracle.o, wanted.bound.o,
      wanted.reach, dtype,
      [&](int64_t n) { return layout.name("attended", n); }, judgement);
}

// Their weights, stored as y is.
void compare_weights(const JudgeInput& input, Judgement& judgement) {
  const Dtype dtype = input.value.o_dtype;
  const std::vector<double> weights =
      as_doubles(input.calls[0].outcome->weights, dtype);
  const AttendedStage wanted =
      attended_stage(input, input.calls[0], dtype, /*weights=*/true);
  compare_all(
      TensorName::kWeights, weights, wanted.oracle.weights,
      wanted.bound.weights, std::vector<double>(weights.size()), dtype,
      [&](int64_t n) {
        return element_name(TensorName::kWeights, input.value.shape, n);
      },
      judgement);
}

std::string y_name(const Shape& shape, int64_t n) {
  return element_name(TensorName::kY, shape, n);
}

// y on the heads that the kernel returned.
void compare_output(const JudgeInput& input, const LayerProblem& problem,
                    const std::vector<double>& attended,
                    const std::vector<double>& y, Judgement& judgement) {
  const Dtype dtype = input.value.o_dtype;
  const std::vector<double> merged = merge_heads(problem.shape, attended);
  const LinearProblem linear =
      projection_stage(problem, Projection::kO, merged.data());
  const std::vector<double> truth = plain_linear(linear);
  const LinearBound bound =
      linear_bound(linear, truth, for_storage(input.model, dtype, dtype));
  compare_all(
      TensorName::kY, y, truth, bound.bound, bound.reach, dtype,
      [&](int64_t n) { return y_name(problem.shape, n); }, judgement);
}

// Without stages, only X and Y are available.
void compare_whole(const JudgeInput& input, const LayerProblem& problem,
                   const std::vector<double>& y, Judgement& judgement) {
  const Dtype dtype = input.value.o_dtype;
  const Dtype stage = stage_dtype(input);
  const LayerOutput oracle = plain_layer(problem);
  const LayerBound bound = layer_bound(
      problem, oracle, for_storage(input.model, stage, dtype), stage);
  compare_all(
      TensorName::kY, y, oracle.y, bound.y, bound.reach, dtype,
      [&](int64_t n) { return y_name(problem.shape, n); }, judgement);
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

AttendedStage attended_stage(const JudgeInput& input, const CallView& call,
                             Dtype stored, bool weights) {
  const LayerProblem problem = layer_problem(input.value, *call.inputs);
  const std::vector<Stage> stages = read_stages(input, call);
  const Problem attention =
      attention_stage(problem, stages[0].values.data(), stages[1].values.data(),
                      stages[2].values.data());
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
  const auto add = [&](const char* name) -> Judgement& {
    judged.push_back({name, {}});
    return judged.back().judgement;
  };
  const LayerProblem problem =
      layer_problem(input.value, *input.calls[0].inputs);
  const CallOutcome& outcome = *input.calls[0].outcome;
  const std::vector<double> y = as_doubles(outcome.y, input.value.o_dtype);
  if (!input.calls[0].planned->want_stages) {
    compare_whole(input, problem, y, add("y"));
    return judged;
  }
  constexpr Projection kProjections[] = {Projection::kQ, Projection::kK,
                                         Projection::kV};
  const std::vector<Stage> stages = read_stages(input, input.calls[0]);
  bool finite = true;
  for (size_t i = 0; i < stages.size(); ++i) {
    compare_projection(input, problem, kProjections[i], stages[i],
                       add(stages[i].name));
    finite = finite && is_finite(stages[i].values);
  }
  const auto ends = [&] {
    return failed(judged) && (wrong == WrongStage::kEndsThere || !finite);
  };
  if (ends()) return judged;
  const std::vector<double> attended =
      as_doubles(outcome.attended, stage_dtype(input));
  compare_attention(input, attended, add("attended"));
  if (!outcome.weights.empty()) compare_weights(input, add("weights"));
  finite = finite && is_finite(attended);
  if (ends()) return judged;
  compare_output(input, problem, attended, y, add("y"));
  return judged;
}

}  // namespace qkvet::properties
