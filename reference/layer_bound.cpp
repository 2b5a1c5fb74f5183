// SPDX-License-Identifier: Apache-2.0
// The bound of a layer that returns no stages: each stage's bound becomes the
// uncertainty of what the next one reads (README.md, "A whole layer").
#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "reference/bound.h"
#include "reference/layer.h"

namespace qkvet {
namespace {

// The rows of a projection that [B,heads,T,width] was split from; split_heads
// backwards, for the oracle's stages.
std::vector<double> as_rows(const Shape& shape, Projection which,
                            const std::vector<double>& heads) {
  Shape of = shape;
  of.H = which == Projection::kQ ? shape.H : shape.Hkv;
  of.dv = which == Projection::kV ? shape.dv : shape.d;
  return merge_heads(of, heads);
}

std::vector<double> projection_bound(const LayerProblem& problem,
                                     Projection which,
                                     const std::vector<double>& oracle,
                                     const PrecisionModel& model) {
  const LinearBound bound =
      linear_bound(projection_stage(problem, which, problem.x),
                   as_rows(problem.shape, which, oracle), model);
  return split_heads(problem.shape, which, bound.bound);
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

LayerBound layer_bound(const LayerProblem& problem, const LayerOutput& oracle,
                       const PrecisionModel& model, Dtype stage) {
  LayerBound bound;
  bound.q = projection_bound(problem, Projection::kQ, oracle.q, model);
  bound.k = projection_bound(problem, Projection::kK, oracle.k, model);
  bound.v = projection_bound(problem, Projection::kV, oracle.v, model);
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

}  // namespace qkvet
