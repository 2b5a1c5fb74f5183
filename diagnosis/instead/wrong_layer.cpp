// SPDX-License-Identifier: Apache-2.0
// The wrong elements of a layer's answer: in the first stage that departs,
// compared with the right result for the inputs that the kernel itself gave to
// it; or in y, if no stages are returned.
#include "diagnosis/instead/wrong_layer.h"

#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::diagnosis {
namespace {

constexpr Projection kProjections[] = {Projection::kQ, Projection::kK,
                                       Projection::kV};

Predicted of_projection(const LayerAnswer& answer, const LayerProblem& problem,
                        Projection which) {
  ProjectedStage stage = projected_stage(
      problem, which,
      for_storage(answer.model(), answer.stage_type(), answer.stage_type()),
      answer.stage_type());
  return {std::move(stage.truth), std::move(stage.bound)};
}

}  // namespace

TensorName name_of(Projection which) {
  constexpr TensorName kNames[] = {TensorName::kStageQ, TensorName::kStageK,
                                   TensorName::kStageV, TensorName::kY};
  return kNames[static_cast<size_t>(which)];
}

LayerAnswer::LayerAnswer(const WrongAnswer& answer, const JudgedKernel& kernel)
    : answer_(&answer),
      kernel_(&kernel),
      problem_(layer_problem(answer.value(), *answer.inputs)),
      stage_type_(kernel.info.stage_dtype(answer.value().q_dtype)) {
  const CallOutcome& outcome = answer.outcome();
  if (!has_stages()) return;
  q_ = as_doubles(outcome.stage_q, stage_type_);
  k_ = as_doubles(outcome.stage_k, stage_type_);
  v_ = as_doubles(outcome.stage_v, stage_type_);
  attended_ = as_doubles(outcome.attended, stage_type_);
}

bool LayerAnswer::has_stages() const { return returns_stages(kernel_->info); }
const PrecisionModel& LayerAnswer::model() const { return kernel_->model; }

Problem LayerAnswer::attention() const {
  return attention_stage(problem_, q_.data(), k_.data(), v_.data());
}

Predicted LayerAnswer::attended_of(const Problem& problem) const {
  const OracleOutput oracle = plain_forward(problem);
  const BoundFacts facts(problem, oracle);
  const Bound bound =
      compute_bound(facts, for_storage(model(), stage_type_, stage_type_),
                    /*weights=*/false);
  return {oracle.o, bound.o};
}

Predicted LayerAnswer::predicted(const LayerProblem& problem,
                                 TensorName name) const {
  for (const Projection which : kProjections)
    if (name == name_of(which)) return of_projection(*this, problem, which);
  if (name == TensorName::kAttended) return attended_of(attention());
  const Dtype dtype = answer_->value().o_dtype;
  if (has_stages())
    return output_of(problem, merge_heads(problem.shape, attended_));
  LayerOutput oracle = plain_layer(problem);
  LayerBound bound = layer_bound(
      problem, oracle, for_storage(model(), stage_type_, dtype), stage_type_);
  return {std::move(oracle.y), std::move(bound.y)};
}

Predicted LayerAnswer::output_of(const LayerProblem& problem,
                                 const std::vector<double>& merged) const {
  const Dtype dtype = answer_->value().o_dtype;
  const LinearProblem linear =
      projection_stage(problem, Projection::kO, merged.data());
  std::vector<double> values = plain_linear(linear);
  LinearBound bound =
      linear_bound(linear, values, for_storage(model(), dtype, dtype));
  return {std::move(values), std::move(bound.bound)};
}

void find_in_layer(const JudgedKernel& kernel, WrongAnswer& answer) {
  const LayerAnswer layer(answer, kernel);
  const Shape& s = answer.value().shape;
  const auto add = [&](TensorName name, std::array<int64_t, 4> extents,
                       Dtype dtype) {
    Predicted right = layer.predicted(layer.problem(), name);
    WrongOutput output = answer.returned(
        name, dtype, extents, std::move(right.values), std::move(right.bounds));
    find_wrong_elements(output);
    answer.keep(std::move(output));
  };
  if (layer.has_stages()) {
    const Dtype stage = layer.stage_type();
    add(TensorName::kStageQ, {s.B, s.H, s.Tq, s.d}, stage);
    add(TensorName::kStageK, {s.B, s.Hkv, s.Tq, s.d}, stage);
    add(TensorName::kStageV, {s.B, s.Hkv, s.Tq, s.dv}, stage);
    if (!answer.outputs.empty()) return;
    add(TensorName::kAttended, {s.B, s.H, s.Tq, s.dv}, stage);
    if (!answer.outputs.empty()) return;
  }
  add(TensorName::kY, {s.B, 1, s.Tq, s.D}, answer.value().o_dtype);
}

}  // namespace qkvet::diagnosis
