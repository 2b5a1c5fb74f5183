// SPDX-License-Identifier: Apache-2.0
// From the inputs of a row to the error of its weights: e_j of each score, E_j
// of each exponent, the sum of the weights (README.md, "Scores" to
// "Normaliser").
#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/bound_impl.h"

namespace qkvet {
namespace {

constexpr double kLog2E = 0x1.71547652b82fep0;
// Up to here a cubic bounds exp(E) - 1 from above and exp(-E) from below.
constexpr double kSmallExponent = 1.0 / 64;
// Roundings in proportion to the lse of a part that is merged by it: its own,
// and one for a change of the logarithm's base.
constexpr double kMergeReferenceRoundings = 2;

// sum_k |S_k| over the additions of q.k in the declared lanes, and over the
// tree that adds the lanes, where a level costs at most the sum of all lanes.
double lane_partial_sums(const RowView& row, const PrecisionModel& model,
                         const double* k, RowScratch& scratch) {
  const int64_t lanes = std::min<int64_t>(model.dot_lanes, row.d);
  double* lane = scratch.lane.data();
  double* cost = scratch.lane_cost.data();
  for (int64_t l = 0; l < lanes; ++l) {
    lane[l] = row.q[l] * k[l];
    // The first product meets a zero: only an FMA rounds there.
    cost[l] = model.fma ? std::fabs(lane[l]) : 0;
  }
  for (int64_t c = lanes; c < row.d; c += lanes) {
    const int64_t count = std::min(lanes, row.d - c);
    for (int64_t l = 0; l < count; ++l) {
      lane[l] += row.q[c + l] * k[c + l];
      cost[l] += std::fabs(lane[l]);
    }
  }
  double total = 0;
  double ends = 0;
  for (int64_t l = 0; l < lanes; ++l) {
    total += cost[l];
    ends += std::fabs(lane[l]);
  }
  const auto levels = std::min<int64_t>(ceil_log2(model.dot_lanes), lanes - 1);
  return total + static_cast<double>(levels) * ends;
}

// Additions in the fullest lane, and in the tree that adds the lanes.
double lanes_depth(int64_t d, int64_t lanes) {
  const int64_t in_lane = (d - 1) / lanes;
  return static_cast<double>(in_lane + ceil_log2(lanes));
}

// Additions that a product passes at most; negative: unknown.
double dot_depth(const RowView& row, const PrecisionModel& model) {
  switch (model.dot_sum) {
    case SumOrder::kAny:
      return -1;
    case SumOrder::kLanes:
      return lanes_depth(row.d, model.dot_lanes);
    case SumOrder::kPairwise:
      return ceil_log2(row.d);
  }
  return -1;
}

// All products and all partial sums are multiples of one power of two, and
// small enough to be exact.
bool exact_dot(const RowView& row, const PrecisionModel& model, int64_t j) {
  if (model.scale_stage == ScaleStage::kOnQ) return false;
  if (row.magnitude[j] == 0) return true;
  // Not > 0, so that a NaN counts as uncertain.
  if (row.drift != nullptr && !(row.drift[j] == 0)) return false;
  const int q_grid = row.q_grid;
  const int k_grid = row.k_grid[j];
  const int least = std::min({q_grid, k_grid, q_grid + k_grid});
  const int limit = model.ftz ? kLeastNormalExponent : kLeastSubnormalExponent;
  return least >= limit &&
         row.magnitude[j] * model.u <= std::ldexp(1.0, q_grid + k_grid);
}

// What underflow can do to a score. Without flushing, additions are exact.
double score_floor(const RowView& row, const PrecisionModel& model, int64_t j,
                   double lambda) {
  const double c = row.scale;
  const double after_q =
      model.scale_stage == ScaleStage::kOnQ ? std::max(1.0, c) : c;
  const double operations = 2 * static_cast<double>(row.d) + 2;
  const double flushed_scale =
      model.ftz && c < kLeastNormal ? row.magnitude[j] * c : 0;
  return lambda * (after_q * (operations + row.k_sum[j]) + c * row.q_sum + 1) +
         flushed_scale;
}

// e_j: how far the computed score can be from s_j.
double score_error(const RowView& row, const PrecisionModel& model, int64_t j,
                   double depth, double lambda, RowScratch& scratch) {
  const double u = model.u;
  const double A = row.scale * row.magnitude[j];
  const double s = std::fabs(row.score[j]);
  const double drift = row.drift != nullptr ? row.drift[j] : 0;
  const double d = static_cast<double>(row.d);
  double e = 0;
  if (!exact_dot(row, model, j)) {
    const double M = (A + s + drift) / 2;
    double additions = (d - 1) * (M + u * A);
    if (depth >= 0) additions = std::min(additions, depth * A);
    e = u * (A + additions) / (1 - 2 * d * u);
    if (model.dot_sum == SumOrder::kLanes) {
      const double* k = row.k + j * row.d;
      const double sums =
          row.scale * lane_partial_sums(row, model, k, scratch) +
          (model.fma ? 0 : A);
      // Computed partial sums differ from exact ones by at most e, and those
      // of uncertain inputs by another drift in all.
      e = std::min(e, u * sums + (d + 3) * u * (e + drift));
    }
  }
  if (row.magnitude[j] != 0) e += score_floor(row, model, j, lambda);
  e += drift;
  if (model.scale_stage == ScaleStage::kAfterDot) e += u * (s + e);
  if (model.scale_stage == ScaleStage::kOnQ) e += u * A;
  if (!row.scale_given) e += model.default_scale_error * u * (s + e);
  return e * second_order(u);
}

bool overflows(const RowView& row, const PrecisionModel& model) {
  double largest = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    largest = std::max(largest, row.magnitude[j]);
    // NaN must not look small.
    if (!(row.magnitude[j] <= kLargestSafe)) return true;
  }
  const bool on_q = model.scale_stage == ScaleStage::kOnQ;
  const double scaled = row.scale * std::max(largest, on_q ? row.q_max : 0.0);
  return !(scaled * kLog2E <= kLargestSafe);
}

int64_t rescale_count(const RowView& row, const PrecisionModel& model) {
  int64_t count = model.extra_rescales;
  if (model.tile > 0) {
    const int64_t tiles = (row.Tk + model.tile - 1) / model.tile;
    count += std::min(tiles, row.n) - 1;
  }
  // Parts may be folded one after the other, each a new maximum.
  if (model.merge == Merge::kMlo) {
    count += std::min<int64_t>(model.splits, row.n) - 1;
  }
  if (row.n == 1) count = 0;
  // The weight of a part multiplies its output.
  if (model.merge == Merge::kLse) count += 1;
  return count;
}

// E_j of every key: relative error of exp(s_j - m), up to what all keys share.
void exponent_errors(const RowView& row, const PrecisionModel& model,
                     RowErrors& errors, RowScratch& scratch) {
  const double u = model.u;
  const double argument =
      model.arg_roundings * u / (1 - model.arg_roundings * u);
  const double events = 1 + static_cast<double>(errors.rescales);
  const double reference = std::max(std::fabs(row.top), std::fabs(row.lse));
  const double d = static_cast<double>(row.d);
  const bool lse_merge = model.merge == Merge::kLse;
  for (int64_t j = 0; j < row.n; ++j) {
    const double e = scratch.score_error[j];
    const double x = row.top - row.score[j];
    const double ref = std::max(std::fabs(row.score[j]), reference);
    double E = e + argument * (x + e + errors.score_max + 2 * model.lazy) +
               model.ref_roundings * u * (ref + errors.score_max + model.lazy) +
               errors.epsb * events + errors.lambda;
    if (lse_merge) {
      E += kMergeReferenceRoundings * u *
               (ref + errors.score_max + errors.log_n) +
           2 * u * errors.log_n + u * (x + errors.log_n) + errors.epsb;
    }
    E += kOracleU * ((d + 1) * row.scale * row.magnitude[j] +
                     2 * std::fabs(row.score[j]) + x + 4);
    scratch.exponent_error[j] = E;
    errors.exponent_max = std::max(errors.exponent_max, E);
  }
}

struct WeightRange {
  double excess;  // >= w (exp(E) - 1)
  double drop;    // >= w (1 - exp(-E))
  double least;   // <= w exp(-E): w - drop, which may cancel to nothing
};

WeightRange weight_range(double w, double x, double E) {
  if (E <= kSmallExponent) {
    const double drop = w * E * (1 - E * (0.5 - E / 6));
    return {w * E * (1 + E * (0.5 + E * (1 + E) / 6)), drop, w - drop};
  }
  const double up = std::exp(std::min(kLargestExponent, E - x));
  const double least = std::exp(-E - x);
  return {std::max(0.0, up - w), w - least, least};
}

// excess_j and qU_j, the least possible sum D, and ln L both ways.
void weight_errors(const RowView& row, RowErrors& errors, RowScratch& scratch) {
  double sum = 0;
  double excess = 0;
  double drop = 0;
  double kept = 0;
  bool hopeless = false;
  for (int64_t j = 0; j < row.n; ++j) {
    const double w = row.p[j] * row.total;
    const double x = row.top - row.score[j];
    const double E = scratch.exponent_error[j];
    const WeightRange range = weight_range(w, x, E);
    hopeless = hopeless || E - x > kLargestExponent;
    scratch.excess[j] = range.excess;
    scratch.share[j] = w + range.excess;
    sum += w;
    excess += range.excess;
    drop += range.drop;
    kept += range.least;
  }
  const double n = static_cast<double>(row.n);
  const double least = kept * (1 - (n + 8) * kOracleU) - n * errors.floor;
  hopeless = hopeless || !(least > kNothing);
  errors.least_sum = hopeless ? kNothing : least;
  errors.sum_excess = excess;
  errors.deviance =
      std::min(2.0, (excess + n * errors.floor) / errors.least_sum);
  errors.log_up = errors.log_down = errors.exponent_max;
  if (!hopeless) {
    errors.log_up = std::log1p((excess + n * errors.floor) / sum);
    errors.log_down = std::log1p((drop + n * errors.floor) / least);
  }
  const bool single = row.n == 1;
  for (int64_t j = 0; j < row.n; ++j) {
    // A single weight cancels against its own sum.
    if (single) scratch.excess[j] = 0;
    scratch.share[j] =
        single ? 1 : std::min(1.0, scratch.share[j] / errors.least_sum);
  }
  if (single) errors.deviance = errors.sum_excess = 0;
}

// eta where keys come in ascending order; also covers tiles that are summed on
// their own and then added, which is the second rounding per tile.
double ordered_normaliser(const RowView& row, const PrecisionModel& model,
                          const RowErrors& errors, const RowScratch& scratch,
                          double any_order) {
  const double u = model.u;
  double sum = 0;
  double cost = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    if (model.tile > 0 && j > 0 && j % model.tile == 0) cost += 2 * u * sum;
    sum += row.p[j];
    if (j > 0) cost += std::min(u * sum, scratch.share[j]);
  }
  if (model.tile > 0) cost += 2 * u * sum;
  const auto roundings = static_cast<double>(row.n + 2 * errors.rescales + 1);
  return cost * second_order(u) + roundings * u * (errors.deviance + any_order);
}

double normaliser(const RowView& row, const PrecisionModel& model,
                  const RowErrors& errors, const RowScratch& scratch) {
  const double u = model.u;
  double leaves = 0;
  double largest = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    const double leaf = std::min(u, scratch.share[j]);
    leaves += leaf;
    largest = std::max(largest, leaf);
  }
  const auto n = static_cast<double>(row.n);
  const auto R = static_cast<double>(errors.rescales);
  const double depth = value_depth(row, model);
  double eta = leaves - largest;
  if (depth >= 0) eta = std::min(eta, depth * u);
  eta = (eta + R * u) / (1 - 2 * (n + R) * u);
  if (!single_ascending(model)) return eta;
  return std::min(eta, ordered_normaliser(row, model, errors, scratch, eta));
}

// q = 0: every score is 0, every weight exp(0) = 1, every partial sum of
// weights an integer that is exact below 1/u.
bool exactly_flat(const RowView& row, const PrecisionModel& model) {
  return row.q_sum == 0 && model.exp_exact_at_zero && !model.norm_first &&
         model.merge != Merge::kLse &&
         static_cast<double>(row.n) * model.u <= 1;
}

}  // namespace

int ceil_log2(int64_t n) {
  return n <= 1
             ? 0
             : static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1)));
}

bool single_ascending(const PrecisionModel& model) {
  return model.value_sum == SumOrder::kLanes && model.splits == 1 &&
         model.merge == Merge::kNone && !model.norm_first &&
         model.extra_rescales == 0;
}

double value_depth(const RowView& row, const PrecisionModel& model) {
  const bool two_pass = model.tile == 0 && model.splits == 1;
  if (model.value_sum != SumOrder::kPairwise || !two_pass) return -1;
  // Halves may be taken over all keys, masked ones as exact zeros.
  return static_cast<double>(std::min<int64_t>(ceil_log2(row.Tk), row.n - 1));
}

RowErrors bound_scores(const RowView& row, const PrecisionModel& model,
                       RowScratch& scratch) {
  const double u = model.u;
  RowErrors errors;
  errors.lambda = model.ftz ? kLeastNormal : kLeastSubnormal;
  errors.log_n = std::log(static_cast<double>(row.n));
  errors.epsb = model.exp_error / (1 - model.exp_error);
  errors.rescales = rescale_count(row, model);
  if (model.lazy > 0) errors.growth = std::exp(model.lazy);
  const auto roundings =
      static_cast<double>(std::max(row.d, row.n + errors.rescales));
  // The derivations divide by 1 - 2 n u.
  errors.unjudged = overflows(row, model) || !(2 * roundings * u <= 0.5);
  errors.flat = exactly_flat(row, model);
  if (errors.unjudged) return errors;
  const double depth = dot_depth(row, model);
  for (int64_t j = 0; j < row.n; ++j) {
    scratch.score_error[j] =
        score_error(row, model, j, depth, errors.lambda, scratch);
    errors.score_max = std::max(errors.score_max, scratch.score_error[j]);
  }
  if (errors.flat) {
    std::fill_n(scratch.exponent_error.begin(), row.n, 0.0);
  } else {
    exponent_errors(row, model, errors, scratch);
    // A rescale can underflow too; a late maximum lets weights be larger.
    // It is absolute in units of the computed maximum.
    const double unit = own_exponent(row, model, errors) + errors.score_max;
    errors.floor = model.exp_floor *
                   (1 + static_cast<double>(errors.rescales)) * errors.growth *
                   errors.growth * std::exp(std::min(kLargestExponent, unit));
  }
  weight_errors(row, errors, scratch);
  round_weights(row, model, errors, scratch);
  if (errors.unjudged) return errors;
  errors.eta = errors.flat ? 0 : normaliser(row, model, errors, scratch);
  if (model.merge == Merge::kLse) {
    const double exponent =
        kMergeReferenceRoundings * u *
            (std::fabs(row.lse) + errors.score_max + errors.log_n) +
        4 * u * errors.log_n + (model.splits + 3) * u + 2 * errors.epsb;
    errors.merge = std::expm1(std::min(kLargestExponent, exponent));
  }
  return errors;
}

}  // namespace qkvet
