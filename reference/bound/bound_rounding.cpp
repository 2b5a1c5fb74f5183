// SPDX-License-Identifier: Apache-2.0
// The effect on the weights of rounding P to a half format (bounds.md, "Rounded
// P").
#include <algorithm>
#include <cmath>

#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// Roundings of the maximum itself on its way into the exponents: one on top of
// those that the declaration counts.
constexpr double kOwnRoundings = 1;
// Within this part of u_p, a weight near 1 is nearer to 1 than to any other
// number of its format: below 1 they are u_p apart.
constexpr double kNearOne = 0.25;
// Rounding that moves the sum of weights this far leaves nothing to judge.
constexpr double kHopelessSum = 0.5;

// a_p where P underflows: relative to the computed sum of weights, and to the
// largest exact weight.
struct PFloor {
  double share;
  double weight;
};

PFloor p_floor(const RowView& row, const PrecisionModel& model,
               const RowErrors& errors) {
  // Flushing concerns f32 and what has its range.
  const double floor = std::max(model.p_floor, errors.lambda);
  const double own = own_exponent(row, model, errors);
  const double moved = own + errors.score_max;
  const double to_own = floor * std::exp(std::min(kLargestExponent, own));
  const double to_top = floor * std::exp(std::min(kLargestExponent, moved));
  if (model.p_normalised) return {to_own, to_top};
  return {floor * unit_share(row, model, errors), to_top};
}

double rounding_of(double x, double u_p, double floor) {
  return std::min(x, std::max(u_p * x, floor));
}

// A row of one key has P = 1 up to a few roundings, which rounding P removes.
void round_single(const RowView& row, const PrecisionModel& model,
                  RowErrors& errors, RowScratch& scratch) {
  const double off = std::expm1(
      std::min(kLargestExponent, own_exponent(row, model, errors) +
                                     model.norm_roundings * model.softmax_u()));
  const double r = off <= kNearOne * model.p_u ? off : model.p_u;
  scratch.rounding[0] = r;
  errors.r_sum = errors.r_cap = r;
}

// The denominator adds what P v adds: rounding widens each weight, and cancels
// like every other error of a weight.
void widen_weights(const RowView& row, const PrecisionModel& model,
                   double weight_floor, RowErrors& errors,
                   RowScratch& scratch) {
  const auto n = static_cast<double>(row.terms());
  const double least =
      errors.least_sum * (1 - model.p_u) - n * std::min(weight_floor, 1.0);
  errors.least_sum = std::max(kNothing, least);
  errors.sum_excess = 0;
  const double in_sum = 1 / (1 - errors.r_sum);
  for (int64_t j = 0; j < row.terms(); ++j) {
    const double w = scratch.share_exact[j] * row.total;
    double& excess = scratch.excess[j];
    excess += rounding_of(w + excess, model.p_u, weight_floor);
    errors.sum_excess += excess;
    scratch.share[j] = std::min(1.0, (w + excess) / errors.least_sum);
    scratch.rounding[j] *= in_sum;
  }
  errors.deviance =
      std::min(2.0, (errors.sum_excess + n * errors.floor) / errors.least_sum);
}

}  // namespace

double own_exponent(const RowView& row, const PrecisionModel& model,
                    const RowErrors& errors) {
  const double roundings =
      model.arg_roundings + model.ref_roundings + kOwnRoundings;
  return roundings * model.softmax_u() *
             (std::fabs(row.top) + errors.score_max + model.lazy +
              (combines_anyhow(model) ? row.shift : 0)) +
         errors.epsb * (1 + static_cast<double>(errors.rescales));
}

double unit_share(const RowView& row, const PrecisionModel& model,
                  const RowErrors& errors) {
  const double own = own_exponent(row, model, errors);
  const double moved = own + errors.score_max;
  return std::min(
      std::exp(std::min(kLargestExponent, own)),
      std::exp(std::min(kLargestExponent, moved)) / errors.least_sum);
}

void round_weights(const RowView& row, const PrecisionModel& model,
                   RowErrors& errors, RowScratch& scratch) {
  std::fill_n(scratch.rounding.begin(), row.terms(), 0.0);
  // 1 is exact in every format.
  if (model.p_u == 0 || errors.flat) return;
  errors.r_separate = !model.sum_of_rounded_p;
  // A late maximum lets weights grow beyond 1; twice, for their own errors.
  // Normalised ones are at most 1 again.
  errors.unjudged = !model.p_normalised && 2 * errors.growth > model.p_largest;
  const PFloor floor = p_floor(row, model, errors);
  const bool single = row.terms() == 1;
  if (single) {
    round_single(row, model, errors, scratch);
  } else {
    const double grown =
        1 + (model.norm_first ? model.norm_roundings * model.softmax_u() : 0);
    // If the denominator adds rounded P, a sink may be one of its weights.
    const int64_t count = model.sum_of_rounded_p ? row.terms() : row.n;
    for (int64_t j = 0; j < count; ++j) {
      const double x = scratch.share[j] * grown;
      scratch.rounding[j] = rounding_of(x, model.p_u, floor.share);
      errors.r_sum += scratch.rounding[j];
    }
    errors.r_cap = model.p_u * grown + static_cast<double>(count) * floor.share;
    errors.r_sum = std::min(errors.r_sum, errors.r_cap);
  }
  if (errors.r_sum > kHopelessSum) errors.unjudged = true;
  if (errors.unjudged) return;
  if (model.sum_of_rounded_p && !single) {
    widen_weights(row, model, floor.weight, errors, scratch);
  }
  for (int64_t j = 0; j < row.n; ++j) {
    scratch.entering[j] = scratch.share[j] + scratch.rounding[j];
  }
}

}  // namespace qkvet::reference
