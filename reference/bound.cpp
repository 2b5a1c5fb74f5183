// SPDX-License-Identifier: Apache-2.0
// The bound of a whole problem, row by row, and of what is not the output:
// log-sum-exp, weights and their sum (README.md, "Other outputs").
#include "reference/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/bound_impl.h"

namespace qkvet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// ln of a sum: its own error of up to two ulps and the addition of m. Vector
// libraries whose exp is worse than this have a logarithm to match.
constexpr double kLogRoundings = 3;
constexpr double kGoodExp = 4;  // in units of u
// m and ln L pass at most two changes of base each on their way into lse.
constexpr double kLseRoundings = 4;

double lse_bound(const RowView& row, const PrecisionModel& model,
                 const RowErrors& errors) {
  if (errors.unjudged) return kInfinity;
  const double u = model.u;
  const double log_sum = std::log(row.total);
  const double log_quality = model.exp_error > kGoodExp * u ? 2 : 1;
  double bound = std::max(errors.log_up, errors.log_down) +
                 errors.eta / (1 - errors.eta) + errors.merge;
  bound += kLogRoundings * log_quality * u * (log_sum + model.lazy + 1);
  bound +=
      (kLseRoundings + 2 * model.ref_roundings) * u *
      (std::fabs(row.top) + model.lazy + std::fabs(row.lse) + errors.score_max);
  bound += 2 * kOracleU * (log_sum + std::fabs(row.lse));
  if (model.sum_of_rounded_p) bound -= std::log1p(-errors.r_sum);
  return bound * second_order(u) + errors.lambda;
}

// Returned weights may be rounded P or not. Where the denominator adds rounded
// P, they may also be rounded anew, against another maximum.
double rounded_times(const PrecisionModel& model) {
  return model.sum_of_rounded_p ? 2 : 1;
}

// total - x[j], where total is the sum of x; without cancellation, which would
// leave nothing where x[j] is almost all of it.
double all_but(const double* x, int64_t n, int64_t j, double total) {
  if (2 * x[j] <= total) return total - x[j];
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += k == j ? 0 : x[k];
  return sum;
}

// The output bound for a one-hot column of V, plus the rounding of storage.
void weight_bounds(const RowView& row, const PrecisionModel& model,
                   const RowErrors& errors, const RowScratch& scratch,
                   double* bound) {
  const double u = model.u;
  const auto n = static_cast<double>(row.n);
  const double normaliser = errors.eta / (1 - errors.eta);
  const bool exact = row.n == 1 || errors.flat;
  const double times = rounded_times(model);
  for (int64_t j = 0; j < row.n; ++j) {
    if (errors.unjudged) {
      bound[j] = kInfinity;
      continue;
    }
    const double p = row.p[j];
    const double own = scratch.excess[j] * all_but(row.p, row.n, j, 1);
    const double others =
        p * all_but(scratch.excess.data(), row.n, j, errors.sum_excess);
    const double free =
        (own + others + errors.floor * (1 + n * p)) / errors.least_sum;
    const double moved = exact ? 0 : std::min(free, std::max(p, 1 - p));
    double b = moved + times * scratch.rounding[j];
    b += normaliser * (p + b);
    b += model.norm_roundings * u * (p + b);
    b += errors.merge * (p + b);
    b += model.output_u * (p + b);
    bound[j] = b * second_order(u) + (n + 8) * kOracleU * p + errors.lambda +
               model.output_floor;
  }
}

// Every weight is divided by the computed sum of the computed weights, so score
// errors cancel. Not where a maximum changes on the way: returned weights are
// then taken against the last maximum, summed ones were rescaled to it.
double row_sum_bound(const RowView& row, const PrecisionModel& model,
                     const RowErrors& errors) {
  if (errors.unjudged) return kInfinity;
  const double rescaled = errors.rescales > 0 ? 2 * errors.deviance : 0;
  double bound = errors.eta / (1 - errors.eta) + errors.merge + rescaled;
  bound +=
      rounded_times(model) * errors.r_sum / (1 - errors.r_sum) * (1 + bound);
  bound += (model.norm_roundings * model.u + model.output_u) * (1 + bound);
  return bound * second_order(model.u) +
         static_cast<double>(row.n) *
             (kOracleU + errors.lambda + model.output_floor);
}

void keep_larger(std::vector<double>& all, const std::vector<double>& one) {
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], one[i]);
}

// It is not known where P is rounded: the larger of two bounds, one for every
// kernel whose denominator adds exact P and one for those that add rounded P.
Bound any_stage_bound(const BoundFacts& facts, const PrecisionModel& model,
                      bool want_weights) {
  PrecisionModel stage = model;
  stage.p_any_stage = false;
  stage.p_normalised = model.norm_first;
  Bound bound = compute_bound(facts, stage, want_weights);
  stage.p_normalised = false;
  stage.sum_of_rounded_p = true;
  const Bound other = compute_bound(facts, stage, want_weights);
  keep_larger(bound.o, other.o);
  keep_larger(bound.lse, other.lse);
  keep_larger(bound.weights, other.weights);
  keep_larger(bound.row_sum, other.row_sum);
  return bound;
}

}  // namespace

RowScratch::RowScratch(const Shape& shape, const PrecisionModel& model) {
  for (auto* per_key :
       {&score_error, &exponent_error, &excess, &share, &rounding, &entering}) {
    per_key->resize(shape.Tk);
  }
  for (auto* per_column : {&moved, &carried, &absolute, &largest, &limit,
                           &added, &partial, &window, &ordered, &rounded}) {
    per_column->resize(shape.dv);
  }
  lane.resize(model.dot_lanes);
  lane_cost.resize(model.dot_lanes);
}

Bound compute_bound(const BoundFacts& facts, const PrecisionModel& model,
                    bool want_weights) {
  if (model.p_any_stage && model.p_u > 0) {
    return any_stage_bound(facts, model, want_weights);
  }
  const Shape& shape = facts.impl().shape;
  Bound bound;
  bound.o.assign(shape.o_elements(), 0.0);
  bound.lse.assign(shape.lse_elements(), 0.0);
  bound.row_sum.assign(shape.lse_elements(), 0.0);
  if (want_weights) bound.weights.assign(shape.weights_elements(), 0.0);
  RowScratch scratch(shape, model);
  for (int64_t r = 0; r < shape.lse_elements(); ++r) {
    const RowView row = row_view(facts.impl(), r);
    if (row.n == 0) continue;
    const RowErrors errors = bound_scores(row, model, scratch);
    bound_columns(row, model, errors, scratch, bound.o.data() + r * shape.dv);
    bound.lse[r] = lse_bound(row, model, errors);
    bound.row_sum[r] = row_sum_bound(row, model, errors);
    if (want_weights) {
      weight_bounds(row, model, errors, scratch,
                    bound.weights.data() + r * shape.Tk);
    }
  }
  return bound;
}

}  // namespace qkvet
