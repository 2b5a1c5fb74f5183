// SPDX-License-Identifier: Apache-2.0
// From the errors of a row's scores to that of its weights: E_j of each
// exponent, the sum of the weights (bounds.md, "Exponents" to "Normaliser").
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// Up to here a cubic bounds exp(E) - 1 from above and exp(-E) from below.
constexpr double kSmallExponent = 1.0 / 64;
// Roundings in proportion to the lse of a part that is merged by it: its own,
// and one for a change of the logarithm's base.
constexpr double kMergeReferenceRoundings = 2;

// If scale and maximum are in one multiply-add, the exponent of the maximum
// itself is its rounding error, which is large for a huge maximum.
bool own_weight_overflows(const RowView& row, const PrecisionModel& model,
                          const RowErrors& errors) {
  return combines_anyhow(model) && own_exponent(row, model, errors) >
                                       errors.largest_argument - errors.log_n;
}

bool overflows(const RowView& row, const PrecisionModel& model) {
  if (options_overflow(row, model)) return true;
  double largest = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    largest = std::max(largest, row.magnitude[j]);
    // NaN must not look small.
    if (!(row.magnitude[j] <= model.range.largest_safe)) return true;
    if (dot_overflows(row, model, j)) return true;
  }
  const bool on_q = model.scale_stage == ScaleStage::kOnQ;
  const double scaled = row.scale * std::max(largest, on_q ? row.q_max : 0.0);
  return !(scaled * kLog2E <= model.range.largest_safe);
}

// Whether a score is too large for the type that it is stored in, which no
// order of operations could avoid.
bool stored_overflow(const RowView& row, const PrecisionModel& model,
                     const RowScratch& scratch) {
  for (int64_t a = 0; a < row.n && model.score.rounds(); ++a) {
    const double s = row.score[a];
    if (std::fabs(s) + scratch.score_error[a] <= model.score.largest) continue;
    if (!(s < 0 && row.top - s > far_below(model))) return true;
  }
  return false;
}

int64_t rescale_count(const RowView& row, const PrecisionModel& model) {
  int64_t count = model.extra_rescales;
  if (model.tile > 0) {
    const int64_t tiles = (row.Tk + model.tile - 1) / model.tile;
    // An unchanged maximum costs nothing, so that only tiles with a visible key
    // count, if exp(0) is 1.
    const bool free = model.exp_exact_at_zero || row.keys == nullptr;
    count += (free ? std::min(tiles, row.n) : tiles) - 1;
  }
  // Parts may be folded one after the other, each a new maximum.
  if (model.merge == Merge::kMlo) {
    count += std::min<int64_t>(model.splits, row.n) - 1;
  }
  if (row.sink != nullptr) count += 1;
  if (row.terms() == 1) count = 0;
  // The weight of a part multiplies its output.
  if (model.merge == Merge::kLse) count += 1;
  return count;
}

// How far all scores of the row may be shifted together.
double shift_of(const RowView& row, const PrecisionModel& model) {
  return combines_anyhow(model) ? row.shift : 0;
}

// Rank n is the sink.
double term_score(const RowView& row, int64_t a) {
  return a < row.n ? row.score[a] : *row.sink;
}

// emax: the largest distance of the computed maximum from m. Errors of keys
// that biases put far below m count only as far as they exceed that distance.
double maximum_error(const RowView& row, const RowScratch& scratch) {
  double largest = 0;
  const bool reaching = row.added() || row.sink != nullptr;
  for (int64_t a = 0; a < row.terms(); ++a) {
    const double below = reaching ? row.top - term_score(row, a) : 0;
    largest = std::max(largest, scratch.score_error[a] - below);
  }
  return largest;
}

// e_j of every term, and its exact share.
void score_errors(const RowView& row, const PrecisionModel& model,
                  RowErrors& errors, RowScratch& scratch) {
  const ScoreTerms terms(row, model, errors.lambda);
  const bool options = row.scaled != nullptr || row.sink != nullptr;
  std::copy_n(row.p, row.n, scratch.share_exact.begin());
  for (int64_t a = 0; a < row.n; ++a) {
    double e = scaled_error(row, model, terms, a, scratch);
    if (options) e = option_error(row, model, a, e, errors.lambda);
    scratch.score_error[a] = e;
    errors.keys_top = std::max(errors.keys_top, row.score[a]);
  }
  if (row.sink != nullptr) {
    scratch.share_exact[row.n] = *row.sink_share;
    scratch.score_error[row.n] = sink_error(row, model);
  }
  errors.score_max = maximum_error(row, scratch);
}

// E_j of every term: relative error of exp(s_j - m), up to what all share.
void exponent_errors(const RowView& row, const PrecisionModel& model,
                     RowErrors& errors, RowScratch& scratch) {
  const double u = model.softmax_u();
  const double argument =
      model.arg_roundings * u / (1 - model.arg_roundings * u);
  const double events = 1 + static_cast<double>(errors.rescales);
  const bool lse_merge = model.merge == Merge::kLse;
  const double shift = shift_of(row, model);
  const double reference =
      std::max(std::fabs(row.top), std::fabs(row.lse)) + shift;
  const double d = static_cast<double>(row.d);
  const bool reaching = row.added() || row.sink != nullptr;
  for (int64_t j = 0; j < row.terms(); ++j) {
    const bool is_sink = j == row.n;
    const double e = scratch.score_error[j];
    const double s = std::fabs(term_score(row, j));
    // A sink may be weighed against the maximum of the keys alone.
    const double x =
        row.top - term_score(row, j) + (is_sink ? sink_gap(row, errors) : 0);
    // In proportion to the reference, which is the lowest f64 and off by more
    // than f64 can hold where a bias is that: a part at a time.
    const double ref = std::max(s + shift, reference);
    const auto of_reference = [&](double units, double more) {
      return units * ref + units * ((reaching ? e : 0) + more);
    };
    const double off = errors.score_max + model.lazy;
    double E = e + argument * x +
               argument * (e + errors.score_max + 2 * model.lazy) +
               of_reference(model.ref_roundings * u, off) +
               errors.epsb * events + errors.lambda + model.softmax.floor;
    if (lse_merge) {
      E += of_reference(kMergeReferenceRoundings * u,
                        errors.score_max + errors.log_n) +
           2 * u * errors.log_n + u * (x + errors.log_n) + errors.epsb +
           model.log_off(
               errors.log_most +
               of_reference((model.arg_roundings + model.ref_roundings + 1) * u,
                            off));
    }
    const double dot = is_sink ? 0 : (d + 1) * row.scale * row.magnitude[j];
    // Twice the lowest f64 is no number, as it is once it is times a unit.
    E += kOracleU * (dot + x + 4) + 2 * kOracleU * s;
    if (row.scaled != nullptr && !is_sink) E += oracle_option_error(row, j);
    scratch.exponent_error[j] = E;
    errors.exponent_max = std::max(errors.exponent_max, E);
  }
}

// The log of a sum of weights in units of its own maximum, but for the
// roundings of the sum itself; rounded weights may be what is added up.
double largest_log(const RowView& row, const PrecisionModel& model,
                   const RowErrors& errors) {
  const auto n = static_cast<double>(row.terms());
  const double rounded =
      model.sum_of_rounded_p ? 2 * (model.p_u + n * model.p_floor) : 0;
  return errors.log_n + model.lazy + own_exponent(row, model, errors) + rounded;
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

// Sums of weight_range() over terms.
struct WeightSums {
  double sum = 0;
  double excess = 0;
  double drop = 0;
  double kept = 0;
  bool hopeless = false;
  // The least sum of computed weights.
  double least(double count, double floor) {
    const double sure = kept * (1 - (count + 8) * kOracleU) - count * floor;
    hopeless = hopeless || !(sure > kNothing);
    return hopeless ? kNothing : sure;
  }
  double log_up(double count, double floor, double otherwise) const {
    if (hopeless) return otherwise;
    return std::log1p((excess + count * floor) / sum);
  }
  double log_down(double count, double floor, double least,
                  double otherwise) const {
    if (hopeless) return otherwise;
    return std::log1p((drop + count * floor) / least);
  }
};

// The rounding of a denominator that is complete.
double stored_sum(const PrecisionModel& model) {
  const double u = model.softmax_u();
  return u > model.sum_u() ? u * second_order(u) : 0;
}

// The same of the keys alone, for an lse without the sink. The kernel adds them
// up apart: subtracting the sink from the whole sum has no useful bound.
void keys_alone(const RowView& row, const PrecisionModel& model,
                WeightSums keys, RowErrors& errors, const RowScratch& scratch) {
  const auto n = static_cast<double>(row.n);
  const double floor = errors.floor;
  const double least = keys.least(n, floor);
  // A sum that may have underflowed has no logarithm.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  errors.keys_log_up = keys.log_up(n, floor, kInfinity);
  errors.keys_log_down = keys.log_down(n, floor, least, kInfinity);
  const double u = model.sum_u();
  double leaves = 0;
  double largest = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    const double w = scratch.share_exact[j] * row.total + scratch.excess[j];
    const double leaf = std::min(u, w / least);
    leaves += leaf;
    largest = std::max(largest, leaf);
  }
  errors.keys_part = least / (row.total + errors.sum_excess + n * floor);
  const auto R = static_cast<double>(errors.rescales);
  const double blocks = key_block_cost(row, model, row.n);
  const double sums = blocks > 0 ? blocks : leaves - largest;
  errors.keys_eta = (sums + R * model.softmax_u()) /
                        (1 - 2 * ((n + R) * model.softmax_u() + blocks)) +
                    stored_sum(model);
}

// excess_j and qU_j, the least possible sum D, and ln L both ways.
void weight_errors(const RowView& row, const PrecisionModel& model,
                   RowErrors& errors, RowScratch& scratch) {
  WeightSums all;
  WeightSums keys;
  const int64_t terms = row.terms();
  for (int64_t j = 0; j < terms; ++j) {
    if (j == row.n) keys = all;
    const double w = scratch.share_exact[j] * row.total;
    const double x = row.top - term_score(row, j);
    const double E = scratch.exponent_error[j];
    const WeightRange range = weight_range(w, x, E);
    all.hopeless = all.hopeless || E - x > kLargestExponent;
    scratch.excess[j] = range.excess;
    scratch.share[j] = w + range.excess;
    all.sum += w;
    all.excess += range.excess;
    all.drop += range.drop;
    all.kept += range.least;
  }
  const auto n = static_cast<double>(terms);
  errors.least_sum = all.least(n, errors.floor);
  errors.sum_excess = all.excess;
  errors.deviance =
      std::min(2.0, (all.excess + n * errors.floor) / errors.least_sum);
  errors.log_up = all.log_up(n, errors.floor, errors.exponent_max);
  errors.log_down =
      all.log_down(n, errors.floor, errors.least_sum, errors.exponent_max);
  if (terms > row.n) keys_alone(row, model, keys, errors, scratch);
  const bool single = terms == 1;
  for (int64_t j = 0; j < terms; ++j) {
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
  const double u = model.sum_u();
  double sum = 0;
  double cost = 0;
  int64_t window = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    if (model.tile > 0 && row.key(j) / model.tile != window) {
      window = row.key(j) / model.tile;
      cost += 2 * u * sum;
    }
    sum += row.p[j];
    if (j > 0) cost += std::min(u * sum, scratch.share[j]);
  }
  if (model.tile > 0) cost += 2 * u * sum;
  const auto roundings = static_cast<double>(row.n + 2 * errors.rescales + 1);
  return cost * second_order(u) + roundings * u * (errors.deviance + any_order);
}

double normaliser(const RowView& row, const PrecisionModel& model,
                  const RowErrors& errors, const RowScratch& scratch) {
  const double u = model.sum_u();
  const double softmax_u = model.softmax_u();
  double leaves = 0;
  double largest = 0;
  for (int64_t j = 0; j < row.terms(); ++j) {
    const double leaf = std::min(u, scratch.share[j]);
    leaves += leaf;
    largest = std::max(largest, leaf);
  }
  const auto n = static_cast<double>(row.terms());
  const auto R = static_cast<double>(errors.rescales);
  const double depth = value_depth(row, model);
  // A sink joins the sum of the keys at an unknown place.
  const double sink = row.sink != nullptr ? 1 : 0;
  double eta = leaves - largest;
  if (depth >= 0) eta = std::min(eta, (depth + sink) * u);
  const double blocks = key_block_cost(row, model, row.terms());
  if (blocks > 0) eta = blocks;
  eta = (eta + R * softmax_u) / (1 - 2 * (n * u + R * softmax_u + blocks));
  if (single_ascending(model) && row.sink == nullptr) {
    eta = std::min(eta, ordered_normaliser(row, model, errors, scratch, eta));
  }
  return eta + stored_sum(model) * (1 + eta);
}

// q = 0: every score is 0, every weight exp(0) = 1, every partial sum of
// weights an integer that is exact below 1/u.
bool exactly_flat(const RowView& row, const PrecisionModel& model) {
  return row.q_sum == 0 && row.scaled == nullptr && row.sink == nullptr &&
         model.exp_exact_at_zero && !model.norm_first &&
         model.merge != Merge::kLse &&
         static_cast<double>(row.n) *
                 std::max(exact_u(model), model.softmax_u()) <=
             1;
}

}  // namespace

bool single_ascending(const PrecisionModel& model) {
  return model.block_u == 0 && model.value_sum == SumOrder::kLanes &&
         model.splits == 1 && model.merge == Merge::kNone &&
         !model.norm_first && model.extra_rescales == 0;
}

double key_block_cost(const RowView& row, const PrecisionModel& model,
                      int64_t terms) {
  const int64_t tiles =
      model.tile > 0 ? (row.Tk + model.tile - 1) / model.tile : 1;
  // A sink is one more term, in a sum of its own.
  const int64_t sink = terms > row.n ? 1 : 0;
  return block_cost(model, terms, row.Tk, tiles + model.splits + sink);
}

double value_depth(const RowView& row, const PrecisionModel& model) {
  const bool two_pass = model.tile == 0 && model.splits == 1;
  if (model.value_sum != SumOrder::kPairwise || !two_pass) return -1;
  if (model.block_u > 0) return -1;
  // Halves may be taken over all keys, masked ones as exact zeros.
  return static_cast<double>(std::min<int64_t>(ceil_log2(row.Tk), row.n - 1));
}

RowErrors bound_scores(const RowView& row, const PrecisionModel& model,
                       RowScratch& scratch) {
  const double u = model.softmax_u();
  RowErrors errors;
  errors.lambda = model.range.lambda(model.ftz);
  errors.largest_argument =
      std::min(model.range.largest_argument, std::log(model.softmax.largest));
  errors.log_n = std::log(static_cast<double>(row.terms()));
  errors.epsb = model.exp_error / (1 - model.exp_error);
  errors.rescales = rescale_count(row, model);
  errors.evaluation += model.range.evaluation_u *
                       (4 * static_cast<double>(row.terms() + row.d) + 64);
  if (model.lazy > 0) errors.growth = std::exp(model.lazy);
  const auto d = static_cast<double>(row.d);
  const auto of_keys = static_cast<double>(row.terms() + errors.rescales);
  const double roundings = std::max(d * model.dot_u(), of_keys * model.u);
  // The derivations divide by 1 - 2 n u, and the same of blocks.
  const double blocks = std::max(block_cost(model, row.d, row.d),
                                 key_block_cost(row, model, row.terms()));
  const double of_sum = static_cast<double>(row.terms()) * model.sum_u() +
                        static_cast<double>(errors.rescales) * u;
  errors.unjudged = overflows(row, model) ||
                    !(2 * (std::max(roundings, of_sum) + blocks) <= 0.5) ||
                    // The denominator, twice for its own errors.
                    2 * static_cast<double>(row.terms()) * errors.growth >
                        model.softmax.largest;
  errors.flat = exactly_flat(row, model);
  if (errors.unjudged) return errors;
  score_errors(row, model, errors, scratch);
  errors.unjudged = stored_overflow(row, model, scratch);
  if (errors.unjudged) return errors;
  if (errors.flat) {
    std::fill_n(scratch.exponent_error.begin(), row.n, 0.0);
  } else {
    errors.unjudged = own_weight_overflows(row, model, errors);
    if (errors.unjudged) return errors;
    errors.log_most = largest_log(row, model, errors) + 2 * of_sum;
    exponent_errors(row, model, errors, scratch);
    // A rescale can underflow too; a late maximum lets weights be larger.
    // It is absolute in units of the computed maximum.
    const double unit = own_exponent(row, model, errors) + errors.score_max;
    errors.floor = model.exp_floor *
                   (1 + static_cast<double>(errors.rescales)) * errors.growth *
                   errors.growth * std::exp(std::min(kLargestExponent, unit));
  }
  weight_errors(row, model, errors, scratch);
  round_weights(row, model, errors, scratch);
  if (errors.unjudged) return errors;
  errors.eta = errors.flat ? 0 : normaliser(row, model, errors, scratch);
  if (model.merge == Merge::kLse) {
    const int parts = model.splits + (row.sink != nullptr ? 1 : 0);
    const double exponent = kMergeReferenceRoundings * u *
                                (std::fabs(row.lse) + shift_of(row, model) +
                                 errors.score_max + errors.log_n) +
                            4 * u * errors.log_n + (parts + 3) * u +
                            2 * errors.epsb +
                            2 * model.log_off(errors.log_most);
    errors.merge = std::expm1(std::min(kLargestExponent, exponent));
  }
  return errors;
}

}  // namespace qkvet::reference
