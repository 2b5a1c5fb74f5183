// SPDX-License-Identifier: Apache-2.0
// The bound of a whole problem, row by row, and the bounds of other outputs:
// log-sum-exp, weights and their sum (bounds.md, "Other outputs").
#include "reference/bound/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// ln of a sum: its own error of up to two ulps and the addition of m. Vector
// libraries with a worse exp than this have a logarithm to match. If the error
// of the logarithm is declared, only the addition remains.
constexpr double kLogRoundings = 3;
constexpr double kGoodExp = 4;  // in units of u
// m and ln L pass at most two changes of base each on their way into lse.
constexpr double kLseRoundings = 4;

// A sink that is not in the lse leaves the sum of the keys, in units of a
// maximum that may be the sink's.
bool sink_apart(const RowView& row) {
  return row.sink != nullptr && !row.sink_in_lse;
}

// Returned weights may be rounded P or not. If the denominator adds rounded P,
// they may also be rounded again, with another maximum.
double rounded_times(const PrecisionModel& model) {
  return model.sum_of_rounded_p ? 2 : 1;
}

// total - x[j], where total is the sum of x; without the cancellation that
// would leave nothing if x[j] is almost all of it.
double all_but(const double* x, int64_t n, int64_t j, double total) {
  if (2 * x[j] <= total) return total - x[j];
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += k == j ? 0 : x[k];
  return sum;
}

// Every weight that the row returns, plus the rounding of storage.
void weight_bounds(const RowView& row, const PrecisionModel& model,
                   const RowErrors& errors, const RowScratch& scratch,
                   double* bound) {
  for (int64_t j = 0; j < row.n; ++j) {
    bound[row.key(j)] = weight_bound(row, model, errors, scratch, j);
  }
}

// The effect of score errors on the keys' part of the denominator: the output
// bound for V = 1 at every key.
double sink_moved(const RowView& row, const RowErrors& errors,
                  const RowScratch& scratch) {
  if (row.sink == nullptr) return 0;
  const double sink = *row.sink_share;
  const double keys = 1 - sink;
  const double own = scratch.excess[row.n];
  const double moved =
      std::max(0.0, errors.sum_excess - own) * sink + own * keys +
      errors.floor * (static_cast<double>(row.n) * sink + keys);
  return std::min(moved / errors.least_sum, std::max(sink, keys)) +
         static_cast<double>(row.n + 8) * kOracleU;
}

// Every weight is divided by the computed sum of the computed weights, so score
// errors cancel, except for a sink, and except if the maximum changes on the
// way: returned weights then use the last maximum, and summed ones were
// rescaled to it.
double row_sum_bound(const RowView& row, const PrecisionModel& model,
                     const RowErrors& errors, const RowScratch& scratch) {
  if (errors.unjudged) return kInfinity;
  const double rescaled = errors.rescales > 0 ? 2 * errors.deviance : 0;
  double bound = errors.eta / (1 - errors.eta) + errors.merge + rescaled +
                 sink_moved(row, errors, scratch);
  bound +=
      rounded_times(model) * errors.r_sum / (1 - errors.r_sum) * (1 + bound);
  const double u = model.softmax_u();
  bound += (model.norm_roundings * u + model.output_u) * (1 + bound);
  return bound * second_order(u) * errors.evaluation +
         static_cast<double>(row.n) *
             (kOracleU + errors.lambda + model.softmax.floor +
              model.output_floor);
}

void keep_larger(std::vector<double>& all, const std::vector<double>& one) {
  for (size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], one[i]);
}

// P may be rounded at either place: the larger of two bounds, one for kernels
// with a denominator of exact P and one for those with a denominator of rounded
// P.
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

// ln of a sum of weights, which is `size` at most and has moved by `moved`, and
// the addition of the maximum.
double log_of_sum_bound(const PrecisionModel& model, double size,
                        double moved) {
  const double u = model.softmax_u();
  if (model.log_error > 0) return model.log_off(size + moved) + u * (size + 1);
  const bool loose = model.fast_log || model.exp_error > kGoodExp * u;
  return kLogRoundings * (loose ? 2 : 1) * u * (size + 1);
}

// An lse that is rounded before it is returned, or as the softmax leaves it.
double stored_lse(double lse, double bound, const PrecisionModel& model,
                  double lambda) {
  bound += model.softmax.floor;
  const double size = std::fabs(lse) + bound;
  return size > std::min(model.lse.largest, model.softmax.largest)
             ? kInfinity
             : bound + model.lse.of(size, lambda);
}

void view_options(const BoundFacts::Impl& facts, int64_t row, RowView& view) {
  const auto optional = [](const auto& all, int64_t first) {
    return all.empty() ? nullptr : all.data() + first;
  };
  const int64_t pair = row * facts.shape.Tk;
  copy_numbers(facts, view);
  view.softcap_after_bias = facts.softcap_after_bias;
  view.sink_in_lse = facts.sink_in_lse;
  view.keys = optional(facts.keys, pair);
  view.drift = optional(facts.drift, pair);
  view.scaled = optional(facts.scaled, pair);
  view.bias = optional(facts.bias, pair);
  view.alibi = optional(facts.alibi, pair);
  view.reference = optional(facts.reference, pair);
  view.sink = optional(facts.sink, row);
  view.sink_share = optional(facts.sink_share, row);
  // A sink of weight 0 has no effect.
  if (view.sink != nullptr && std::isinf(*view.sink)) view.sink = nullptr;
  if (!facts.shift.empty()) view.shift = facts.shift[row];
}

}  // namespace

double lse_bound(const RowView& row, const PrecisionModel& model,
                 const RowErrors& errors) {
  if (errors.unjudged) return kInfinity;
  const double u = model.softmax_u();
  const bool apart = sink_apart(row);
  const double log_sum = apart ? std::fabs(row.lse - row.top) + errors.log_n
                               : std::log(row.total) + sink_gap(row, errors);
  const double up = apart ? errors.keys_log_up : errors.log_up;
  const double down = apart ? errors.keys_log_down : errors.log_down;
  const double eta = apart ? errors.keys_eta : errors.eta;
  double bound = std::max(up, down) + eta / (1 - eta) + errors.merge;
  double rounded = 0;
  if (model.sum_of_rounded_p) {
    const double r_sum = apart ? errors.r_sum / errors.keys_part : errors.r_sum;
    rounded = -std::log1p(-std::min(1.0, r_sum));
  }
  bound += log_of_sum_bound(model, log_sum + model.lazy, bound + rounded);
  bound +=
      (kLseRoundings + 2 * model.ref_roundings) * u *
      (std::fabs(row.top) + model.lazy + std::fabs(row.lse) + errors.score_max);
  // Shifted on the way into the maximum, and back on the way out of it.
  if (combines_anyhow(model)) {
    bound += (kLseRoundings + 2 * model.ref_roundings) * u * row.shift;
  }
  bound += 2 * kOracleU * (log_sum + std::fabs(row.lse));
  bound += rounded;
  bound = bound * second_order(u) * errors.evaluation + errors.lambda;
  return stored_lse(row.lse, bound, model, errors.lambda);
}

double lone_sink_bound(const RowView& row, const PrecisionModel& model) {
  if (row.sink == nullptr || !row.sink_in_lse) return 0;
  const double u = model.softmax_u();
  const double bases = kLseRoundings + 2 * model.ref_roundings;
  const double size = std::fabs(*row.sink);
  double bound = log_of_sum_bound(model, model.lazy, /*moved=*/0) +
                 bases * u * (2 * size + model.lazy);
  // The lse of a part, and that of all.
  if (model.merge == Merge::kLse) bound += model.log_off(model.lazy);
  if (combines_anyhow(model)) bound += bases * u * row.shift;
  bound += sink_rounding(row, model);
  const double lambda = model.range.lambda(model.ftz);
  bound = bound * second_order(u) + lambda;
  return stored_lse(*row.sink, bound, model, lambda);
}

double weight_bound(const RowView& row, const PrecisionModel& model,
                    const RowErrors& errors, const RowScratch& scratch,
                    int64_t a) {
  if (errors.unjudged) return kInfinity;
  const int64_t terms = row.terms();
  const auto n = static_cast<double>(terms);
  const bool exact = terms == 1 || errors.flat;
  const double* shares = scratch.share_exact.data();
  const double p = shares[a];
  const double own = scratch.excess[a] * all_but(shares, terms, a, 1);
  const double others =
      p * all_but(scratch.excess.data(), terms, a, errors.sum_excess);
  const double free =
      (own + others + errors.floor * (1 + n * p)) / errors.least_sum;
  const double moved = exact ? 0 : std::min(free, std::max(p, 1 - p));
  double b = moved + rounded_times(model) * scratch.rounding[a];
  b += errors.eta / (1 - errors.eta) * (p + b);
  const double u = model.softmax_u();
  b += model.norm_roundings * u * (p + b);
  b += errors.merge * (p + b);
  b += model.output_u * (p + b);
  return b * second_order(u) * errors.evaluation + (n + 8) * kOracleU * p +
         errors.lambda + model.softmax.floor + model.output_floor;
}

RowView row_view(const BoundFacts::Impl& facts, int64_t row) {
  const Shape& shape = facts.shape;
  const int64_t kv = row / (shape.group() * shape.Tq);
  RowView view;
  view.n = facts.visible[row];
  view.Tk = shape.Tk;
  view.d = shape.d;
  view.dv = shape.dv;
  view.scale = facts.scale;
  view.scale_given = facts.scale_given;
  view.top = facts.top[row];
  view.total = facts.total[row];
  view.lse = facts.lse[row];
  view.q_sum = facts.q_sum[row];
  view.q_max = facts.q_max[row];
  view.q_grid = facts.q_grid[row];
  view.q = facts.q.data() + row * shape.d;
  view.k = facts.k.data() + kv * shape.Tk * shape.d;
  view.k_sum = facts.k_sum.data() + kv * shape.Tk;
  view.k_grid = facts.k_grid.data() + kv * shape.Tk;
  view.v = facts.v.data() + kv * shape.Tk * shape.dv;
  view.v_size = facts.v_size.data() + kv * shape.Tk * shape.dv;
  view.o = facts.o.data() + row * shape.dv;
  view.p = facts.weights.data() + row * shape.Tk;
  view.score = facts.score.data() + row * shape.Tk;
  view.magnitude = facts.magnitude.data() + row * shape.Tk;
  view.v_sum = facts.v_sum.data() + row * shape.dv;
  view.v_max = facts.v_max.data() + row * shape.dv;
  view.spread = facts.spread.data() + row * shape.dv;
  view.deviation = facts.deviation.data() + row * shape.dv;
  view.v_integer = facts.v_integer.data() + row * shape.dv;
  if (!facts.v_error.empty()) {
    view.v_error = facts.v_error.data() + kv * shape.Tk * shape.dv;
    view.v_drift = facts.v_drift.data() + row * shape.dv;
  }
  view_options(facts, row, view);
  return view;
}

RowScratch::RowScratch(const Shape& shape, const PrecisionModel& model) {
  for (auto* per_key : {&share_exact, &score_error, &exponent_error, &excess,
                        &share, &rounding, &entering}) {
    per_key->resize(shape.Tk + 1);
  }
  for (auto* per_column :
       {&moved, &carried, &absolute, &largest, &limit, &added, &partial,
        &window, &peak, &ordered, &rounded}) {
    per_column->resize(shape.dv);
  }
  lane.resize(model.dot_lanes);
  lane_cost.resize(model.dot_lanes);
}

double lse_in_base2(double lse) { return lse * kLog2E; }

double lse_bound_in_base2(double lse, double bound,
                          const PrecisionModel& model) {
  if (!std::isfinite(lse)) return bound;
  constexpr double kConversion = 2;  // the product, and log2 e itself
  const double conversion =
      (kConversion * model.u + 4 * kOracleU) * (std::fabs(lse) + bound);
  const double lambda = model.range.lambda(model.ftz);
  return (bound + conversion) * kLog2E * second_order(model.u) + lambda;
}

Bound compute_bound(const BoundFacts& facts, const PrecisionModel& model,
                    bool want_weights) {
  if (model.operand.rounds()) {
    PrecisionModel rounded = model;
    rounded.operand = {};
    return compute_bound(with_rounded_operands(facts, model), rounded,
                         want_weights);
  }
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
    if (row.n == 0) bound.lse[r] = lone_sink_bound(row, model);
    if (row.n <= 0) continue;
    const RowErrors errors = bound_scores(row, model, scratch);
    bound_columns(row, model, errors, scratch, bound.o.data() + r * shape.dv);
    bound.lse[r] = lse_bound(row, model, errors);
    bound.row_sum[r] = row_sum_bound(row, model, errors, scratch);
    if (want_weights) {
      weight_bounds(row, model, errors, scratch,
                    bound.weights.data() + r * shape.Tk);
    }
  }
  return bound;
}

}  // namespace qkvet::reference
