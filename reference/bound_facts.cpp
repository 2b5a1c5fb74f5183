// SPDX-License-Identifier: Apache-2.0
// The part of the bound that does not depend on the kernel: dot products with
// their magnitudes and grids, and what each row sees of V. Cost: one more
// forward pass.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "reference/bound_impl.h"

namespace qkvet {
namespace {

int grid_of(const double* x, int64_t count) {
  int grid = kNoGrid;
  for (int64_t c = 0; c < count; ++c) grid = std::min(grid, lowest_bit(x[c]));
  return grid;
}

double error_of(const double* errors, int64_t c) {
  return errors != nullptr ? errors[c] : 0;
}

double abs_sum(const double* x, const double* error, int64_t count) {
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) {
    sum += std::fabs(x[c]) + error_of(error, c);
  }
  return sum;
}

double abs_max(const double* x, const double* error, int64_t count) {
  double largest = 0;
  for (int64_t c = 0; c < count; ++c) {
    largest = std::max(largest, std::fabs(x[c]) + error_of(error, c));
  }
  return largest;
}

void copy_inputs(const Problem& problem, const OracleOutput& oracle,
                 const InputErrors& errors, BoundFacts::Impl& facts) {
  const Shape& shape = problem.shape;
  facts.shape = shape;
  facts.scale = std::fabs(problem.scale);
  facts.scale_given = problem.scale_given;
  facts.q.assign(problem.q, problem.q + shape.q_elements());
  facts.k.assign(problem.k, problem.k + shape.k_elements());
  facts.v.assign(problem.v, problem.v + shape.v_elements());
  facts.o = oracle.o;
  facts.lse = oracle.lse;
  facts.weights = oracle.weights;
  facts.visible = oracle.visible;
  facts.v_size.resize(facts.v.size());
  for (size_t i = 0; i < facts.v.size(); ++i) {
    facts.v_size[i] =
        std::fabs(facts.v[i]) + error_of(errors.v, static_cast<int64_t>(i));
  }
  if (errors.v == nullptr) return;
  facts.v_error.assign(errors.v, errors.v + shape.v_elements());
  facts.v_drift.resize(shape.o_elements());
}

void allocate(BoundFacts::Impl& facts) {
  const Shape& shape = facts.shape;
  const int64_t rows = shape.lse_elements();
  const int64_t keys = shape.B * shape.Hkv * shape.Tk;
  for (auto* per_pair : {&facts.score, &facts.magnitude}) {
    per_pair->resize(shape.weights_elements());
  }
  for (auto* per_row : {&facts.top, &facts.total, &facts.q_sum, &facts.q_max}) {
    per_row->resize(rows);
  }
  for (auto* per_column : {&facts.v_sum, &facts.v_max, &facts.spread,
                           &facts.deviation, &facts.reach}) {
    per_column->resize(shape.o_elements());
  }
  facts.v_integer.resize(shape.o_elements());
  facts.q_grid.resize(rows);
  facts.k_grid.resize(keys);
  facts.k_sum.resize(keys);
}

// Scores, their magnitudes, their largest, and the softmax's denominator: the
// key with the largest score has weight 1 before normalisation, so L = 1/p.
void score_facts(const Problem& problem, const InputErrors& errors, int64_t row,
                 int64_t kv, BoundFacts::Impl& facts) {
  const Shape& shape = facts.shape;
  const double* q = facts.q.data() + row * shape.d;
  const double* dq = errors.q != nullptr ? errors.q + row * shape.d : nullptr;
  double top = -std::numeric_limits<double>::infinity();
  double top_weight = 1;
  for (int64_t j = 0; j < facts.visible[row]; ++j) {
    const double* k = facts.k.data() + (kv * shape.Tk + j) * shape.d;
    double dot = 0;
    double magnitude = 0;
    for (int64_t c = 0; c < shape.d; ++c) {
      dot += q[c] * k[c];
      magnitude += std::fabs(q[c] * k[c]);
    }
    const int64_t pair = row * shape.Tk + j;
    facts.score[pair] = problem.scale * dot;
    facts.magnitude[pair] = magnitude;
    if (facts.score[pair] > top) {
      top = facts.score[pair];
      top_weight = facts.weights[pair];
    }
  }
  facts.top[row] = top;
  facts.total[row] = 1 / top_weight;
  facts.q_sum[row] = abs_sum(q, dq, shape.d);
  facts.q_max[row] = abs_max(q, dq, shape.d);
  facts.q_grid[row] = grid_of(q, shape.d);
}

// Delta_j, by which the magnitudes grow, too.
void drift_facts(const InputErrors& errors, int64_t row, int64_t kv,
                 BoundFacts::Impl& facts) {
  const Shape& shape = facts.shape;
  const double* q = facts.q.data() + row * shape.d;
  const double* dq = errors.q != nullptr ? errors.q + row * shape.d : nullptr;
  for (int64_t j = 0; j < facts.visible[row]; ++j) {
    const int64_t first = (kv * shape.Tk + j) * shape.d;
    const double* k = facts.k.data() + first;
    const double* dk = errors.k != nullptr ? errors.k + first : nullptr;
    double drift = 0;
    for (int64_t c = 0; c < shape.d; ++c) {
      const double off_q = error_of(dq, c);
      const double off_k = error_of(dk, c);
      drift += off_q * std::fabs(k[c]) + (std::fabs(q[c]) + off_q) * off_k;
    }
    const int64_t pair = row * shape.Tk + j;
    facts.magnitude[pair] += drift;
    facts.drift[pair] = facts.scale * drift;
  }
}

void value_facts(int64_t row, int64_t kv, BoundFacts::Impl& facts) {
  const int64_t dv = facts.shape.dv;
  const double* __restrict v = facts.v.data() + kv * facts.shape.Tk * dv;
  const double* __restrict v_size = facts.v_size.data() + (v - facts.v.data());
  const double* __restrict o = facts.o.data() + row * dv;
  double* __restrict sum = facts.v_sum.data() + row * dv;
  double* __restrict largest = facts.v_max.data() + row * dv;
  double* __restrict spread = facts.spread.data() + row * dv;
  double* __restrict deviation = facts.deviation.data() + row * dv;
  for (int64_t j = 0; j < facts.visible[row]; ++j) {
    for (int64_t t = 0; t < dv; ++t) {
      const double size = v_size[j * dv + t];
      const double off = std::fabs(v[j * dv + t] - o[t]);
      sum[t] += size;
      deviation[t] += off;
      largest[t] = size > largest[t] ? size : largest[t];
      spread[t] = off > spread[t] ? off : spread[t];
    }
  }
  for (int64_t a = 0; !facts.v_error.empty() && a < facts.visible[row] * dv;
       ++a) {
    double& drift = facts.v_drift[row * dv + a % dv];
    drift = std::max(drift, facts.v_error[v - facts.v.data() + a]);
  }
  // Only rows of zeros ask whether V is made of integers.
  if (facts.q_grid[row] != kNoGrid) return;
  for (int64_t t = 0; t < dv; ++t) {
    bool integer = true;
    for (int64_t j = 0; j < facts.visible[row] && integer; ++j) {
      integer = v[j * dv + t] == std::nearbyint(v[j * dv + t]) &&
                v_size[j * dv + t] == std::fabs(v[j * dv + t]);
    }
    facts.v_integer[row * dv + t] = integer;
  }
}

// The largest |v_j - o| over all keys, from the extremes of each column. A
// constant column reaches 0, whatever o's own rounding says.
void reach_facts(int64_t first_row, int64_t row_count, int64_t kv,
                 BoundFacts::Impl& facts) {
  const Shape& shape = facts.shape;
  const double* v = facts.v.data() + kv * shape.Tk * shape.dv;
  for (int64_t t = 0; t < shape.dv && shape.Tk > 0; ++t) {
    double low = v[t];
    double high = v[t];
    for (int64_t j = 1; j < shape.Tk; ++j) {
      low = std::min(low, v[j * shape.dv + t]);
      high = std::max(high, v[j * shape.dv + t]);
    }
    for (int64_t row = first_row; row < first_row + row_count; ++row) {
      if (facts.visible[row] == 0) continue;
      const double o = facts.o[row * shape.dv + t];
      facts.reach[row * shape.dv + t] =
          low == high ? 0 : std::max({high - o, o - low, 0.0});
    }
  }
}

}  // namespace

int lowest_bit(double x) {
  constexpr int kFractionBits = 52;
  constexpr int kExponentBias = 1023;
  const auto bits = std::bit_cast<uint64_t>(x);
  const int field = static_cast<int>((bits >> kFractionBits) & 0x7ff);
  uint64_t fraction = bits & ((uint64_t{1} << kFractionBits) - 1);
  if (field != 0) fraction |= uint64_t{1} << kFractionBits;
  if (fraction == 0) return kNoGrid;
  return std::max(field, 1) - kExponentBias - kFractionBits +
         std::countr_zero(fraction);
}

BoundFacts::BoundFacts(const Problem& problem, const OracleOutput& oracle,
                       const InputErrors& errors)
    : impl_(std::make_unique<Impl>()) {
  Impl& facts = *impl_;
  copy_inputs(problem, oracle, errors, facts);
  allocate(facts);
  const Shape& shape = facts.shape;
  for (int64_t key = 0; key < shape.B * shape.Hkv * shape.Tk; ++key) {
    const double* k = facts.k.data() + key * shape.d;
    const double* dk = errors.k != nullptr ? errors.k + key * shape.d : nullptr;
    facts.k_sum[key] = abs_sum(k, dk, shape.d);
    facts.k_grid[key] = grid_of(k, shape.d);
  }
  const bool drifts = errors.q != nullptr || errors.k != nullptr;
  if (drifts) facts.drift.resize(shape.weights_elements());
  // Group by group: query heads of one key/value head lie side by side.
  const int64_t rows_per_kv = shape.group() * shape.Tq;
  for (int64_t kv = 0; kv < shape.B * shape.Hkv; ++kv) {
    const int64_t first_row = kv * rows_per_kv;
    for (int64_t row = first_row; row < first_row + rows_per_kv; ++row) {
      if (facts.visible[row] == 0) continue;
      score_facts(problem, errors, row, kv, facts);
      if (drifts) drift_facts(errors, row, kv, facts);
      value_facts(row, kv, facts);
    }
    reach_facts(first_row, rows_per_kv, kv, facts);
  }
}

BoundFacts::~BoundFacts() = default;
BoundFacts::BoundFacts(BoundFacts&&) noexcept = default;
BoundFacts& BoundFacts::operator=(BoundFacts&&) noexcept = default;

const std::vector<double>& BoundFacts::reach() const { return impl_->reach; }

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
  if (!facts.drift.empty()) view.drift = facts.drift.data() + row * shape.Tk;
  return view;
}

}  // namespace qkvet
