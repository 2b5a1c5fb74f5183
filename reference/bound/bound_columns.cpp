// SPDX-License-Identifier: Apache-2.0
// From the error of the weights to the error of each output (bounds.md,
// "Output" and "Sums"). The loops over t are written to be vectorised: no
// branch, no call, contiguous in t.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// A loop over columns is also compiled for AVX2, and the program uses what its
// processor has: the same operations on doubles, so the same bits. The choice
// is made before a sanitizer has started.
#if defined(__x86_64__) && defined(__gnu_linux__) &&                   \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define QKVET_COLUMNS __attribute__((target_clones("avx2", "default")))
#else
#define QKVET_COLUMNS
#endif

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// moved = sum_j excess_j |v - o|, absolute = sum_j qU_j |v|, and its largest
// term.
QKVET_COLUMNS void weigh_columns(const RowView& row, RowScratch& scratch) {
  const int64_t dv = row.dv;
  const double* __restrict o = row.o;
  double* __restrict moved = scratch.moved.data();
  double* __restrict absolute = scratch.absolute.data();
  double* __restrict largest = scratch.largest.data();
  std::fill_n(moved, dv, 0.0);
  std::fill_n(absolute, dv, 0.0);
  std::fill_n(largest, dv, 0.0);
  for (int64_t j = 0; j < row.n; ++j) {
    const double* __restrict v = row.v + row.key(j) * dv;
    const double* __restrict size = row.v_size + row.key(j) * dv;
    const double excess = scratch.excess[j];
    const double share = scratch.share[j];
    for (int64_t t = 0; t < dv; ++t) {
      const double term = share * size[t];
      moved[t] += excess * std::fabs(v[t] - o[t]);
      absolute[t] += term;
      largest[t] = term > largest[t] ? term : largest[t];
    }
  }
  if (row.sink == nullptr) return;
  const double excess = scratch.excess[row.n];
  for (int64_t t = 0; t < dv; ++t) moved[t] += excess * std::fabs(o[t]);
}

// carried = dw: what uncertain values can move the output by, for any weights.
QKVET_COLUMNS void carry_columns(const RowView& row, RowScratch& scratch) {
  const int64_t dv = row.dv;
  double* __restrict carried = scratch.carried.data();
  std::fill_n(carried, dv, 0.0);
  if (row.v_error == nullptr) return;
  for (int64_t j = 0; j < row.n; ++j) {
    const double* __restrict error = row.v_error + row.key(j) * dv;
    const double share = scratch.share[j];
    for (int64_t t = 0; t < dv; ++t) carried[t] += share * error[t];
  }
  for (int64_t t = 0; t < dv; ++t) {
    carried[t] = std::min(carried[t], row.v_drift[t]);
  }
}

// rounded = sum_j r_j |v|, and the largest term that P v adds.
QKVET_COLUMNS void weigh_rounding(const RowView& row, const RowErrors& errors,
                                  RowScratch& scratch) {
  const int64_t dv = row.dv;
  double* __restrict rounded = scratch.rounded.data();
  double* __restrict largest = scratch.largest.data();
  std::fill_n(rounded, dv, 0.0);
  if (!errors.r_separate) return;
  for (int64_t j = 0; j < row.n; ++j) {
    const double* __restrict size = row.v_size + row.key(j) * dv;
    const double r = scratch.rounding[j];
    const double share = scratch.entering[j];
    for (int64_t t = 0; t < dv; ++t) {
      const double term = share * size[t];
      rounded[t] += r * size[t];
      largest[t] = term > largest[t] ? term : largest[t];
    }
  }
  for (int64_t t = 0; t < dv; ++t) {
    rounded[t] = std::min(rounded[t], errors.r_cap * row.v_max[t]);
  }
}

// moved becomes aw, absolute becomes min(A, hull) + pr, limit becomes u M.
void limit_columns(const RowView& row, const PrecisionModel& model,
                   const RowErrors& errors, RowScratch& scratch) {
  const bool exact = row.terms() == 1 || errors.flat;
  const double growth = 1 / errors.least_sum;
  // |v - o| is as good as o is, and a large excess would magnify that.
  const double oracle =
      errors.sum_excess * static_cast<double>(row.n + 8) * kOracleU;
  for (int64_t t = 0; t < row.dv; ++t) {
    const double free = (scratch.moved[t] + errors.floor * row.deviation[t] +
                         oracle * row.v_max[t]) *
                        growth;
    const double aw =
        (exact ? 0 : std::min(free, row.spread[t])) + scratch.carried[t];
    const double pr = scratch.rounded[t];
    const double A = std::min(scratch.absolute[t], row.v_max[t]) + pr;
    scratch.moved[t] = aw;
    scratch.absolute[t] = A;
    scratch.limit[t] =
        model.value_u() * (A + std::fabs(row.o[t]) + aw + pr) / 2;
  }
}

// added = sum_j min(u M, (qU_j + r_j) |v_j|).
QKVET_COLUMNS void add_leaves(const RowView& row, const RowErrors& errors,
                              RowScratch& scratch) {
  const int64_t dv = row.dv;
  const double* shares = entering_shares(errors, scratch);
  const double* __restrict limit = scratch.limit.data();
  double* __restrict added = scratch.added.data();
  std::fill_n(added, dv, 0.0);
  for (int64_t j = 0; j < row.n; ++j) {
    const double* __restrict size = row.v_size + row.key(j) * dv;
    const double share = shares[j];
    for (int64_t t = 0; t < dv; ++t) {
      const double term = share * size[t];
      added[t] += term < limit[t] ? term : limit[t];
    }
  }
}

// A rescale happens at some key of each window of `tile` keys after the first;
// it rounds the partial sum before that key.
void widen_window(int64_t dv, const double* __restrict partial,
                  double* __restrict window) {
  for (int64_t t = 0; t < dv; ++t) {
    const double size = std::fabs(partial[t]);
    window[t] = size > window[t] ? size : window[t];
  }
}

void close_window(int64_t dv, double u, double* __restrict window,
                  double* __restrict ordered) {
  for (int64_t t = 0; t < dv; ++t) {
    ordered[t] += u * window[t];
    window[t] = 0;
  }
}

// ordered = sum_k min(u |S_k|, (qU_k + r_k) |v_k|) + u |S| at the rescales,
// S_k the partial sums in ascending order of the keys. Windows are counted in
// keys, seen or not. A sink may change the maximum anywhere.
QKVET_COLUMNS void add_in_order(const RowView& row, const PrecisionModel& model,
                                const RowErrors& errors, RowScratch& scratch) {
  const double* shares = entering_shares(errors, scratch);
  const int64_t dv = row.dv;
  const int64_t tile = model.tile;
  const double u = model.value_u();
  double* __restrict partial = scratch.partial.data();
  double* __restrict window = scratch.window.data();
  double* __restrict ordered = scratch.ordered.data();
  double* __restrict peak = scratch.peak.data();
  std::fill_n(partial, dv, 0.0);
  std::fill_n(window, dv, 0.0);
  std::fill_n(ordered, dv, 0.0);
  std::fill_n(peak, dv, 0.0);
  int64_t current = 0;
  for (int64_t j = 0; j < row.n; ++j) {
    const int64_t key = row.key(j);
    if (tile > 0 && key >= tile) {
      if (key / tile != current) close_window(dv, u, window, ordered);
      current = key / tile;
      widen_window(dv, partial, window);
    }
    const double* __restrict v = row.v + key * dv;
    const double* __restrict size = row.v_size + key * dv;
    const double p = row.p[j];
    // The first product meets a zero: only an FMA rounds there.
    const double share = j > 0 || model.fma ? shares[j] : 0;
    for (int64_t t = 0; t < dv; ++t) {
      partial[t] += p * v[t];
      const double term = share * size[t];
      const double rounding = u * std::fabs(partial[t]);
      ordered[t] += term < rounding ? term : rounding;
    }
    if (row.sink != nullptr) widen_window(dv, partial, peak);
  }
  close_window(dv, u, window, ordered);
  close_window(dv, u, peak, ordered);
}

// Values that all columns of a row share; quotients are computed once.
struct ColumnTerms {
  ColumnTerms(const RowView& row, const PrecisionModel& model,
              const RowErrors& errors)
      : u(model.value_u()),
        exact_u(std::max(qkvet::reference::exact_u(model), model.value.u)),
        depth(value_depth(row, model)),
        single(single_ascending(model)),
        per_term(model.norm_first || model.merge == Merge::kLse) {
    const auto n = static_cast<double>(row.terms());
    const auto R = static_cast<double>(errors.rescales);
    roundings = n + R;
    blocks = key_block_cost(row, model, row.n);
    const double drift = 2 * (roundings * u + blocks);
    hopeless = !(drift <= 0.5);
    sum_growth = hopeless ? 2 : 1 / (1 - drift);
    eta_growth = 1 / (1 - errors.eta);
    rescaling = R;
    // Underflow of n products and n sums, of the rescales, of the sums over
    // splits and of the result.
    operations_floor = (2 * n + 2 * R + model.splits + 4) * errors.lambda;
    if (model.value.rounds()) hold_half(row, model, errors);
    oracle = (n + 8) * kOracleU;
  }
  // A product, or the sum that it is fused with, and the rescales of each
  // accumulator, of which no more than n are not 0.
  void hold_half(const RowView& row, const PrecisionModel& model,
                 const RowErrors& errors) {
    const auto n = static_cast<double>(row.terms());
    const double rescales = single ? rescaling : n * rescaling;
    operations_floor += (n + rescales + model.splits + 2) * model.value.floor *
                        unit_share(row, model, errors);
    const bool divided = model.norm_first && model.merge != Merge::kLse;
    const double own = own_exponent(row, model, errors);
    const double grown = 1 + 2 * roundings * u;
    largest_sum = model.value.largest / grown;
    largest_weights =
        divided ? HUGE_VAL
                : largest_sum / (errors.growth *
                                 std::exp(std::min(kLargestExponent, own)));
  }
  double u;
  double exact_u;
  double depth;
  bool single;
  // If weights or parts are normalised separately, each rounds separately and
  // can underflow before its product with the value.
  bool per_term;
  double roundings;
  double blocks;  // key_block_cost()
  bool hopeless;  // more roundings than any derivation holds
  double sum_growth;
  double eta_growth;
  double rescaling;
  double operations_floor;
  // Largest sums of shares times values, and of values with undivided weights.
  double largest_sum = HUGE_VAL;
  double largest_weights = HUGE_VAL;
  // The oracle normalises first: n sums, the products, the weights.
  double oracle;
};

// e_t: error of the computed sum of p v, relative to the exact normaliser.
double sum_error(const RowView& row, const PrecisionModel& model,
                 const RowErrors& errors, const ColumnTerms& terms,
                 const RowScratch& scratch, int64_t t) {
  const double u = terms.u;
  const double A = scratch.absolute[t];
  const double limit = scratch.limit[t];
  double additions =
      std::max(0.0, scratch.added[t] - std::min(limit, scratch.largest[t]));
  if (terms.depth >= 0) additions = std::min(additions, terms.depth * u * A);
  // Truncation may cost more than the smaller operand.
  const double stored = model.value.rounds() ? additions : 0;
  if (terms.blocks > 0) additions = terms.blocks * (limit / u) + stored;
  const double rescaling = terms.rescaling * (terms.single ? limit : u * A);
  double e = (additions + u * A + rescaling) * terms.sum_growth;
  if (terms.single) {
    const double products = model.fma ? 0 : u * A;
    const double deviation = 2 * errors.deviance * row.v_max[t] + e +
                             scratch.rounded[t] + scratch.carried[t];
    e = std::min(e, (scratch.ordered[t] + products) * second_order(u) +
                        terms.roundings * u * deviation);
  }
  e += terms.operations_floor;
  if (terms.per_term) e += (errors.lambda + model.softmax.floor) * row.v_sum[t];
  return e;
}

double output_bound(const RowView& row, const PrecisionModel& model,
                    const RowErrors& errors, const ColumnTerms& terms,
                    const RowScratch& scratch, int64_t t) {
  const double u = model.softmax_u();
  const double o = std::fabs(row.o[t]);
  const double aw = scratch.moved[t];
  const double A = scratch.absolute[t];
  if (!(row.v_sum[t] * errors.growth <= model.range.largest_safe) ||
      !(row.v_sum[t] <= terms.largest_weights) ||
      !(scratch.limit[t] <= terms.u * terms.largest_sum)) {
    return kInfinity;
  }
  // Weights 1 and small integers: numerator and denominator are exact.
  const bool exact =
      errors.flat && row.v_integer[t] != 0 && row.v_sum[t] * terms.exact_u <= 1;
  if (terms.hopeless && !exact) return kInfinity;
  const double e = exact ? 0 : sum_error(row, model, errors, terms, scratch, t);
  const double pr = scratch.rounded[t];
  double bound = aw + (e + errors.eta * (o + aw) + pr) * terms.eta_growth;
  bound += model.norm_roundings * u * (terms.per_term ? A : o + bound);
  bound += errors.merge * (o + bound);
  bound = bound * second_order(std::max(u, terms.u)) * errors.evaluation +
          terms.oracle * A + model.softmax.floor;
  return o + bound < model.output_largest ? bound : kInfinity;
}

}  // namespace

void bound_columns(const RowView& row, const PrecisionModel& model,
                   const RowErrors& errors, RowScratch& scratch,
                   double* bound) {
  if (errors.unjudged) {
    std::fill_n(bound, row.dv, kInfinity);
    return;
  }
  weigh_columns(row, scratch);
  carry_columns(row, scratch);
  weigh_rounding(row, errors, scratch);
  limit_columns(row, model, errors, scratch);
  add_leaves(row, errors, scratch);
  if (single_ascending(model)) add_in_order(row, model, errors, scratch);
  const ColumnTerms terms(row, model, errors);
  for (int64_t t = 0; t < row.dv; ++t) {
    bound[t] = output_bound(row, model, errors, terms, scratch, t);
  }
}

}  // namespace qkvet::reference
