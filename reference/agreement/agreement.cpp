// SPDX-License-Identifier: Apache-2.0
#include "reference/agreement/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/options/rope.h"

namespace qkvet::reference {

PrecisionModel double_precision() {
  PrecisionModel model;
  model.u = 0x1p-53;
  model.dot_sum = SumOrder::kLanes;
  model.dot_lanes = 1;
  model.scale_stage = ScaleStage::kAfterDot;
  model.exp_error = 0x1p-52;    // 1 ulp is at most two units of u
  model.exp_floor = 0x1p-1022;  // below it, double is subnormal
  model.tanh_error = 0x1p-51;   // 2 ulps, as glibc documents
  model.arg_roundings = 1;
  model.norm_roundings = 1;
  model.norm_first = true;
  model.default_scale_error = 0;  // both take the double in Problem
  model.output_u = 0x1p-53;
  model.output_largest = std::numeric_limits<double>::max();
  return model;
}

double worst_ratio(const std::vector<double>& got,
                   const std::vector<double>& want,
                   const std::vector<double>& bound) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != want.size() || got.size() != bound.size()) return kInfinity;
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (bound[i] == kInfinity) continue;
    if (got[i] == want[i]) continue;
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    const double error = std::fabs(got[i] - want[i]);
    if (!(error <= std::numeric_limits<double>::max())) return kInfinity;
    if (!(bound[i] > 0)) return kInfinity;
    worst = std::max(worst, error / bound[i]);
  }
  return worst;
}

double worst_ratio(const GradientOutput& got, const GradientOutput& want,
                   const GradientBound& bound) {
  return std::max({worst_ratio(got.q, want.q, bound.q),
                   worst_ratio(got.k, want.k, bound.k),
                   worst_ratio(got.v, want.v, bound.v),
                   worst_ratio(got.bias, want.bias, bound.bias),
                   worst_ratio(got.sink, want.sink, bound.sink)});
}

double reference_ratio(const Problem& problem, const OracleOutput& plain,
                       const OracleOutput& twin) {
  if (plain.visible != twin.visible || plain.sees != twin.sees) {
    return std::numeric_limits<double>::infinity();
  }
  const Bound bound =
      bound_of(problem, twin, double_precision(), /*want_weights=*/true);
  return std::max({worst_ratio(plain.o, twin.o, bound.o),
                   worst_ratio(plain.lse, twin.lse, bound.lse),
                   worst_ratio(plain.weights, twin.weights, bound.weights)});
}

double linear_ratio(const LinearProblem& problem,
                    const std::vector<double>& plain,
                    const std::vector<double>& twin) {
  const LinearBound bound = linear_bound(problem, twin, double_precision());
  return worst_ratio(plain, twin, bound.bound);
}

double layer_ratio(const LayerProblem& problem, const LayerOutput& plain,
                   const LayerOutput& twin) {
  const LayerBound bound =
      layer_bound(problem, twin, double_precision(), Dtype::kF64);
  return std::max(
      {worst_ratio(plain.q, twin.q, bound.q),
       worst_ratio(plain.k, twin.k, bound.k),
       worst_ratio(plain.v, twin.v, bound.v),
       worst_ratio(plain.attended.o, twin.attended.o, bound.attended),
       worst_ratio(plain.y, twin.y, bound.y)});
}

double gradient_ratio(const GradientProblem& problem,
                      const GradientOutput& plain, const GradientOutput& twin) {
  const OracleOutput given = plain_forward(problem.forward);
  GradientProblem whole = problem;
  whole.o = given.o.data();
  whole.lse = given.lse.data();
  const GradientBound bound = gradient_bound_of(
      whole, twin_forward(problem.forward), twin, double_precision());
  return worst_ratio(plain, twin, bound);
}

}  // namespace qkvet::reference
