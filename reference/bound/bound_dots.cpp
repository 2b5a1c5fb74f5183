// SPDX-License-Identifier: Apache-2.0
// How far c q k can be from its truth, in every declared order (bounds.md,
// "Scores").
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/power_of_two.h"
#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// Replaces a scale that became infinite: nothing computed from it is judged.
constexpr double kUnusable = 1e200;

double scaled_size(const RowView& row, int64_t j) {
  return std::fabs(row.scaled != nullptr ? row.scaled[j] : row.score[j]);
}

// lane_partial_sums() of one lane: its sums stay in registers.
double lone_lane_sums(const RowView& row, const PrecisionModel& model,
                      const double* k) {
  double sum = row.q[0] * k[0];
  double total = model.fma ? std::fabs(sum) : 0;
  for (int64_t c = 1; c < row.d; ++c) {
    sum += row.q[c] * k[c];
    total += std::fabs(sum);
  }
  return total;
}

// sum_k |S_k| over the additions of q.k in the declared lanes, and over the
// tree that adds the lanes, where a level costs at most the sum of all lanes.
double lane_partial_sums(const RowView& row, const PrecisionModel& model,
                         const double* k, RowScratch& scratch) {
  const int64_t lanes = std::min<int64_t>(model.dot_lanes, row.d);
  if (lanes == 1) return lone_lane_sums(row, model, k);
  double* __restrict lane = scratch.lane.data();
  double* __restrict cost = scratch.lane_cost.data();
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

// All products and all partial sums are multiples of one power of two, and
// small enough to be exact.
bool exact_dot(const RowView& row, const PrecisionModel& model,
               const ScoreTerms& terms, int64_t j) {
  if (model.scale_stage == ScaleStage::kOnQ) return false;
  if (row.magnitude[j] == 0) return true;
  // Not > 0, so that a NaN counts as uncertain.
  if (row.drift != nullptr && !(row.drift[j] == 0)) return false;
  const int q_grid = row.q_grid;
  const int k_grid = row.k_grid[row.key(j)];
  const int least = std::min({q_grid, k_grid, q_grid + k_grid});
  // Twice what underflow costs in half is its least number.
  const double product = power_of_two(q_grid + k_grid);
  return least >= terms.least_exponent && product >= 2 * model.dot.floor &&
         row.magnitude[j] * terms.exact_u <= product;
}

// The largest factor that sums of q k are multiplied by.
double unit_of_sums(const RowView& row, const PrecisionModel& model) {
  const double c = row.scale;
  return model.scale_stage == ScaleStage::kOnQ ? std::max(1.0, c) : c;
}

// The largest error of a score by underflow. Without flushing, additions are
// exact.
double score_floor(const RowView& row, const PrecisionModel& model,
                   const ScoreTerms& terms, int64_t j) {
  const double c = row.scale;
  const double operations = 2 * static_cast<double>(row.d) + 2;
  const double flushed_scale =
      model.ftz && terms.short_scale ? row.magnitude[j] * c : 0;
  // A subnormal scale loses bits where it is multiplied by log2 e.
  const double short_scale =
      terms.short_scale ? terms.lambda * row.magnitude[j] : 0;
  const double k_sum = row.k_sum[row.key(j)];
  const double after_k = model.scale_split ? terms.unit : c;
  return terms.lambda *
             (terms.unit * (operations + k_sum) + after_k * row.q_sum + 1) +
         flushed_scale + short_scale;
}

// Scores that are stored in half: after the dot product, where what underflows
// may do so in units of q k, and after the scale where that may be a stage of
// its own.
double stored_score(const RowView& row, const PrecisionModel& model, int64_t j,
                    double s, double e, double lambda) {
  if (!model.score.rounds() || row.magnitude[j] == 0) return e;
  const bool apart =
      model.scale_stage == ScaleStage::kAfterDot || model.scale_split;
  e += model.score.of(s + e, lambda, std::max(1.0, row.scale));
  if (apart) e += model.score.of(s + e, lambda);
  return e;
}

// Additions that a product of q k passes at most; negative: unknown.
double dot_depth(const RowView& row, const PrecisionModel& model) {
  if (model.block_u > 0) return -1;
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

}  // namespace

int ceil_log2(int64_t n) {
  return n <= 1
             ? 0
             : static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1)));
}

double stored_scale(double c, const PrecisionModel& model) {
  if (c == 0 || !model.softmax.rounds()) return 0;
  const double roots =
      model.scale_split ? 2 * model.softmax.u : model.softmax.u;
  const double off = model.softmax.exactly(c) / c;
  return std::isfinite(off) ? std::max(roots, off) : kUnusable;
}

ScoreTerms::ScoreTerms(const RowView& row, const PrecisionModel& model,
                       double absolute)
    : lambda(absolute),
      depth(dot_depth(row, model)),
      sum_u(model.dot_u()),
      exact_u(std::max(qkvet::reference::exact_u(model), model.dot.u)),
      unit(unit_of_sums(row, model)),
      stored(stored_scale(row.scale, model)),
      least_exponent(model.range.lambda_exponent(model.ftz)),
      short_scale(row.scale < model.range.least_normal()) {
  const auto d = static_cast<double>(row.d);
  blocks = block_cost(model, row.d, row.d);
  // Results of a block may be stored.
  if (blocks > 0 && model.dot.rounds()) blocks += (d - 1) * model.dot.u;
  floor = model.dot.floor * unit * d;
}

double scaled_error(const RowView& row, const PrecisionModel& model,
                    const ScoreTerms& terms, int64_t j, RowScratch& scratch) {
  const double u = model.u;
  const double sum_u = terms.sum_u;
  const double A = row.scale * row.magnitude[j];
  const double s = scaled_size(row, j);
  const double drift = row.drift != nullptr ? row.drift[j] : 0;
  const double d = static_cast<double>(row.d);
  double e = 0;
  if (!exact_dot(row, model, terms, j)) {
    const double M = (A + s + drift) / 2;
    double additions = (d - 1) * (M + sum_u * A);
    if (terms.depth >= 0) additions = std::min(additions, terms.depth * A);
    e = sum_u * (A + additions) / (1 - 2 * d * sum_u);
    const double blocks = terms.blocks;
    if (blocks > 0) {
      const double kept = 1 - 2 * (d * sum_u + blocks);
      e = kept > 0 ? (sum_u * A + blocks * (M + sum_u * A)) / kept : kUnusable;
    }
    if (model.dot_sum == SumOrder::kLanes && blocks == 0) {
      const double* k = row.k + row.key(j) * row.d;
      const double sums =
          row.scale * lane_partial_sums(row, model, k, scratch) +
          (model.fma ? 0 : A);
      // Computed partial sums differ from exact ones by at most e, and those
      // of uncertain inputs by another drift in all.
      e = std::min(e, sum_u * sums + (d + 3) * sum_u * (e + drift));
    }
    // A product that underflows, or the sum that it is fused with.
    e += terms.floor;
  }
  if (row.magnitude[j] != 0) e += score_floor(row, model, terms, j);
  e += drift;
  if (model.scale_stage == ScaleStage::kAfterDot) e += u * (s + e);
  if (model.scale_stage == ScaleStage::kOnQ) e += u * A;
  // The product with k, and a root that both sides share.
  if (model.scale_split) e += u * A + 2 * u * (s + e);
  if (!row.scale_given) e += model.default_scale_error * u * (s + e);
  e += terms.stored * (s + e);
  return stored_score(row, model, j, s, e * second_order(sum_u), terms.lambda);
}

bool dot_overflows(const RowView& row, const PrecisionModel& model, int64_t j) {
  if (!model.dot.rounds()) return false;
  const double c = row.scale;
  const double size = row.magnitude[j];
  const double drift = row.drift != nullptr ? row.drift[j] : 0;
  // The sum of q k; if the scale is 0, the whole size replaces it.
  const double M =
      c > 0 ? (size + (scaled_size(row, j) + drift) / c) / 2 : size;
  const double on_q = c * kLog2E;
  const double unit = model.scale_split ? std::max(1.0, on_q)
                      : model.scale_stage == ScaleStage::kOnQ ? on_q
                                                              : 1;
  const double grown = 1 + 2 * static_cast<double>(row.d + 2) * model.dot_u();
  return !(unit * M * grown <= model.dot.largest);
}

}  // namespace qkvet::reference
