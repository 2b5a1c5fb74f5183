// SPDX-License-Identifier: Apache-2.0
// The bound of a layer that returns no stages: each stage's bound becomes the
// uncertainty of what the next one reads (bounds.md, "A whole layer").
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/half.h"
#include "reference/attention/plain_rope.h"
#include "reference/bound/bound.h"
#include "reference/layer/layer.h"
#include "reference/options/rope.h"

namespace qkvet::reference {
namespace {

// q or k of the stage, and nothing of the other.
Problem rotation_of(const LayerProblem& problem, Projection which,
                    const double* data) {
  const bool is_q = which == Projection::kQ;
  Problem one =
      rotation_stage(problem, is_q ? data : nullptr, is_q ? nullptr : data);
  (is_q ? one.shape.Tk : one.shape.Tq) = 0;
  return one;
}

std::vector<double> turned_reach(const LayerProblem& problem, Projection which,
                                 const std::vector<double>& reach) {
  const Problem one = rotation_of(problem, which, reach.data());
  return plain_rotate<TurnedSizes>(
      one.rotation, which == Projection::kQ ? query_rows(one) : key_rows(one));
}

}  // namespace

std::vector<double> stage_error(const std::vector<double>& x,
                                const std::vector<double>& bound, Dtype stage) {
  std::vector<double> error(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double low = round_to(stage, x[i] - bound[i]);
    const double high = round_to(stage, x[i] + bound[i]);
    error[i] =
        std::max({bound[i], std::fabs(low - x[i]), std::fabs(high - x[i])});
  }
  return error;
}

ProjectedStage projected_stage(const LayerProblem& problem, Projection which,
                               const PrecisionModel& model, Dtype stage) {
  const LinearProblem linear = projection_stage(problem, which, problem.x);
  const std::vector<double> truth = plain_linear(linear);
  const LinearBound rows = linear_bound(linear, truth, model);
  const auto split = [&](const std::vector<double>& all) {
    return split_heads(problem.shape, which, all);
  };
  ProjectedStage out = {split(truth), split(rows.bound), split(rows.reach)};
  if (problem.rotation.style == RopeStyle::kNone || which == Projection::kV)
    return out;
  // Stored in between, or not.
  const std::vector<double> off = stage_error(out.truth, out.bound, stage);
  const Problem before = rotation_of(problem, which, out.truth.data());
  RotatedProblem turned = rotated(before);
  RotationErrors errors =
      rotation_errors(before, model, {off.data(), off.data()});
  const bool is_q = which == Projection::kQ;
  out.truth = std::move(is_q ? turned.q : turned.k);
  out.bound = std::move(is_q ? errors.q : errors.k);
  out.reach = turned_reach(problem, which, out.reach);
  return out;
}

LayerBound layer_bound(const LayerProblem& problem, const LayerOutput& oracle,
                       const PrecisionModel& model, Dtype stage) {
  LayerBound bound;
  bound.q = projected_stage(problem, Projection::kQ, model, stage).bound;
  bound.k = projected_stage(problem, Projection::kK, model, stage).bound;
  bound.v = projected_stage(problem, Projection::kV, model, stage).bound;
  const std::vector<double> dq = stage_error(oracle.q, bound.q, stage);
  const std::vector<double> dk = stage_error(oracle.k, bound.k, stage);
  const std::vector<double> dv = stage_error(oracle.v, bound.v, stage);
  const Problem attention = attention_stage(problem, oracle.q.data(),
                                            oracle.k.data(), oracle.v.data());
  const BoundFacts facts(attention, oracle.attended,
                         {dq.data(), dk.data(), dv.data()});
  bound.attended = compute_bound(facts, model, /*want_weights=*/false).o;
  const std::vector<double> merged =
      merge_heads(problem.shape, oracle.attended.o);
  const std::vector<double> off = merge_heads(
      problem.shape, stage_error(oracle.attended.o, bound.attended, stage));
  LinearBound last =
      linear_bound(projection_stage(problem, Projection::kO, merged.data()),
                   oracle.y, model, off.data());
  bound.y = std::move(last.bound);
  bound.reach = std::move(last.reach);
  return bound;
}

}  // namespace qkvet::reference
