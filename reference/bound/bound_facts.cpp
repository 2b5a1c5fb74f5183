// SPDX-License-Identifier: Apache-2.0
// The part of the bound that does not depend on the kernel: dot products with
// their magnitudes and grids, and what each row sees of V. Cost: one more
// forward pass.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "reference/attention/plain.h"
#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
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

// One row, its kv head of [B,Hkv], its place and its diagonal.
struct FactsRow {
  int64_t row = 0;
  int64_t kv = 0;
  PlainPlace place;
  int64_t diagonal = 0;
};

int64_t key_of(const BoundFacts::Impl& facts, int64_t row, int64_t rank) {
  if (facts.keys.empty()) return rank;
  return facts.keys[row * facts.shape.Tk + rank];
}

// The keys that each row sees, unless all rows see a prefix.
void list_keys(const OracleOutput& oracle, BoundFacts::Impl& facts) {
  const int64_t Tk = facts.shape.Tk;
  const int64_t rows = facts.shape.lse_elements();
  bool prefix = true;
  for (int64_t row = 0; row < rows && prefix; ++row) {
    const uint8_t* sees = oracle.sees.data() + row * Tk;
    for (int64_t j = 0; j < facts.visible[row]; ++j) {
      prefix = prefix && sees[j] != 0;
    }
  }
  if (prefix) return;
  facts.keys.resize(oracle.sees.size());
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rank = row * Tk;
    for (int64_t j = 0; j < Tk; ++j) {
      if (oracle.sees[row * Tk + j] != 0) facts.keys[rank++] = j;
    }
  }
}

void copy_inputs(const Problem& problem, const OracleOutput& oracle,
                 const InputErrors& errors, BoundFacts::Impl& facts) {
  const Shape& shape = problem.shape;
  facts.shape = shape;
  facts.scale = std::fabs(problem.scale);
  facts.scale_given = problem.scale_given;
  copy_numbers(problem, facts);
  facts.softcap_after_bias = problem.softcap_after_bias;
  facts.sink_in_lse = problem.sink_in_lse;
  facts.q.assign(problem.q, problem.q + shape.q_elements());
  facts.k.assign(problem.k, problem.k + shape.k_elements());
  facts.v.assign(problem.v, problem.v + shape.v_elements());
  facts.o = oracle.o;
  facts.lse = oracle.lse;
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

void allocate(const Problem& problem, BoundFacts::Impl& facts) {
  const Shape& shape = facts.shape;
  const int64_t rows = shape.lse_elements();
  const int64_t keys = shape.B * shape.Hkv * shape.Tk;
  for (auto* per_pair : {&facts.score, &facts.magnitude, &facts.weights}) {
    per_pair->resize(shape.weights_elements());
  }
  for (auto* per_row : {&facts.top, &facts.total, &facts.q_sum, &facts.q_max}) {
    per_row->resize(rows);
  }
  for (auto* per_column : {&facts.v_sum, &facts.v_max, &facts.spread,
                           &facts.deviation, &facts.reach}) {
    per_column->resize(shape.o_elements());
  }
  if (problem.bias != nullptr) facts.bias.resize(shape.weights_elements());
  if (problem.slopes != nullptr) {
    facts.alibi.resize(shape.weights_elements());
    facts.reference.resize(shape.weights_elements());
    facts.shift.resize(rows);
  }
  if (problem.bias != nullptr || problem.slopes != nullptr ||
      problem.softcap > 0) {
    facts.scaled.resize(shape.weights_elements());
  }
  if (problem.sink != nullptr) {
    facts.sink.resize(rows);
    facts.sink_share.resize(rows);
  }
  facts.v_integer.resize(shape.o_elements());
  facts.q_grid.resize(rows);
  facts.k_grid.resize(keys);
  facts.k_sum.resize(keys);
}

// The effect of options on the score of key `j`, which has rank `a`.
void option_facts(const Problem& problem, const FactsRow& at, int64_t a,
                  int64_t j, BoundFacts::Impl& facts) {
  const int64_t Tk = facts.shape.Tk;
  const int64_t pair = at.row * Tk + a;
  if (facts.scaled.empty()) return;
  const int64_t local = j - at.place.first_k;
  facts.scaled[pair] = facts.score[pair];
  facts.score[pair] = PlainHooks::score<PlainHooks>(problem, at.place, local,
                                                    facts.scaled[pair]);
  if (problem.bias != nullptr) facts.bias[pair] = problem.bias[at.row * Tk + j];
  if (problem.slopes == nullptr) return;
  const double slope = PlainHooks::slope(problem, at.place);
  const double size = std::fabs(slope);
  const auto position =
      static_cast<double>(PlainHooks::place_of(problem, local));
  const auto diagonal =
      static_cast<double>(PlainHooks::place_of(problem, at.diagonal));
  facts.alibi[pair] = slope * std::fabs(diagonal - position);
  facts.reference[pair] = size * (std::fabs(diagonal) + position);
  facts.shift[at.row] = size * std::fabs(diagonal);
}

// A sink joins the maximum and the denominator. An oracle's lse may leave it
// out.
void sink_facts(const Problem& problem, int64_t row, BoundFacts::Impl& facts) {
  const double sink = problem.sink[row / facts.shape.Tq % facts.shape.H];
  double lse = facts.lse[row];
  if (!problem.sink_in_lse) {
    const double larger = std::max(lse, sink);
    lse = larger + std::log1p(std::exp(std::min(lse, sink) - larger));
  }
  const double share = std::exp(sink - lse);
  facts.sink[row] = sink;
  facts.sink_share[row] = share;
  if (sink > facts.top[row]) {
    facts.top[row] = sink;
    facts.total[row] = 1 / share;
  }
}

// The facts of a row without a key: its softmax is the sink alone.
void lone_sink_facts(const Problem& problem, const FactsRow& at,
                     BoundFacts::Impl& facts) {
  if (problem.sink == nullptr) return;
  facts.sink[at.row] = problem.sink[at.place.h];
  if (problem.slopes != nullptr)
    facts.shift[at.row] = std::fabs(PlainHooks::slope(problem, at.place)) *
                          std::fabs(static_cast<double>(at.diagonal));
}

// Scores, their magnitudes, their largest, and the softmax's denominator: the
// key with the largest score has weight 1 before normalisation, so L = 1/p.
void score_facts(const Problem& problem, const OracleOutput& oracle,
                 const InputErrors& errors, const FactsRow& at,
                 BoundFacts::Impl& facts) {
  const Shape& shape = facts.shape;
  const int64_t row = at.row;
  const double* q = facts.q.data() + row * shape.d;
  const double* dq = errors.q != nullptr ? errors.q + row * shape.d : nullptr;
  double top = -std::numeric_limits<double>::infinity();
  double top_weight = 1;
  for (int64_t a = 0; a < facts.visible[row]; ++a) {
    const int64_t j = key_of(facts, row, a);
    const double* k = facts.k.data() + (at.kv * shape.Tk + j) * shape.d;
    double dot = 0;
    double magnitude = 0;
    for (int64_t c = 0; c < shape.d; ++c) {
      dot += q[c] * k[c];
      magnitude += std::fabs(q[c] * k[c]);
    }
    const int64_t pair = row * shape.Tk + a;
    facts.magnitude[pair] = magnitude;
    facts.score[pair] = problem.scale * dot;
    option_facts(problem, at, a, j, facts);
    facts.weights[pair] = oracle.weights[row * shape.Tk + j];
    if (facts.score[pair] > top) {
      top = facts.score[pair];
      top_weight = facts.weights[pair];
    }
  }
  facts.top[row] = top;
  facts.total[row] = 1 / top_weight;
  if (problem.sink != nullptr) sink_facts(problem, row, facts);
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
  for (int64_t a = 0; a < facts.visible[row]; ++a) {
    const int64_t first = (kv * shape.Tk + key_of(facts, row, a)) * shape.d;
    const double* k = facts.k.data() + first;
    const double* dk = errors.k != nullptr ? errors.k + first : nullptr;
    double drift = 0;
    for (int64_t c = 0; c < shape.d; ++c) {
      const double off_q = error_of(dq, c);
      const double off_k = error_of(dk, c);
      drift += off_q * std::fabs(k[c]) + (std::fabs(q[c]) + off_q) * off_k;
    }
    const int64_t pair = row * shape.Tk + a;
    facts.magnitude[pair] += drift;
    facts.drift[pair] = facts.scale * drift;
  }
}

void integer_facts(int64_t row, int64_t head, BoundFacts::Impl& facts) {
  const int64_t dv = facts.shape.dv;
  for (int64_t t = 0; t < dv; ++t) {
    bool integer = true;
    for (int64_t a = 0; a < facts.visible[row] && integer; ++a) {
      const int64_t at = head + key_of(facts, row, a) * dv + t;
      integer = facts.v[at] == std::nearbyint(facts.v[at]) &&
                facts.v_size[at] == std::fabs(facts.v[at]);
    }
    facts.v_integer[row * dv + t] = integer;
  }
}

void value_facts(int64_t row, int64_t kv, BoundFacts::Impl& facts) {
  const int64_t dv = facts.shape.dv;
  const int64_t n = facts.visible[row];
  const int64_t head = kv * facts.shape.Tk * dv;
  const double* __restrict o = facts.o.data() + row * dv;
  double* __restrict sum = facts.v_sum.data() + row * dv;
  double* __restrict largest = facts.v_max.data() + row * dv;
  double* __restrict spread = facts.spread.data() + row * dv;
  double* __restrict deviation = facts.deviation.data() + row * dv;
  for (int64_t a = 0; a < n; ++a) {
    const int64_t first = head + key_of(facts, row, a) * dv;
    const double* __restrict v = facts.v.data() + first;
    const double* __restrict v_size = facts.v_size.data() + first;
    for (int64_t t = 0; t < dv; ++t) {
      const double size = v_size[t];
      const double off = std::fabs(v[t] - o[t]);
      sum[t] += size;
      deviation[t] += off;
      largest[t] = size > largest[t] ? size : largest[t];
      spread[t] = off > spread[t] ? off : spread[t];
    }
  }
  for (int64_t t = 0; t < dv && !facts.sink.empty(); ++t) {
    deviation[t] += std::fabs(o[t]);
    spread[t] = std::max(spread[t], std::fabs(o[t]));
  }
  for (int64_t a = 0; a < n && !facts.v_error.empty(); ++a) {
    const double* error =
        facts.v_error.data() + head + key_of(facts, row, a) * dv;
    for (int64_t t = 0; t < dv; ++t) {
      double& drift = facts.v_drift[row * dv + t];
      drift = std::max(drift, error[t]);
    }
  }
  // Only rows of zeros need to know whether V has only integers.
  if (facts.q_grid[row] == kNoGrid) integer_facts(row, head, facts);
}

// The largest |v_j - o| over all keys of the member, from the extremes of each
// column; a sink is a key of value 0. A constant column reaches 0, regardless
// of o's own rounding. Masked keys may hold anything: only finite values count.
class Reach {
 public:
  void of(const FactsRow& at, BoundFacts::Impl& facts) {
    const int64_t dv = facts.shape.dv;
    const int64_t first = at.kv * facts.shape.Tk + at.place.first_k;
    if (first != first_ || at.place.Lk != Lk_) {
      extremes(facts, first, at.place.Lk);
    }
    for (int64_t t = 0; t < dv; ++t) {
      const double o = facts.o[at.row * dv + t];
      facts.reach[at.row * dv + t] =
          low_[t] == high_[t] ? 0 : std::max({high_[t] - o, o - low_[t], 0.0});
    }
  }

 private:
  // Rows of one member and head are adjacent and share them.
  void extremes(const BoundFacts::Impl& facts, int64_t first, int64_t Lk) {
    const int64_t dv = facts.shape.dv;
    first_ = first;
    Lk_ = Lk;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    low_.assign(dv, facts.sink.empty() ? kInfinity : 0);
    high_.assign(dv, facts.sink.empty() ? -kInfinity : 0);
    for (int64_t a = first * dv; a < (first + Lk) * dv; ++a) {
      if (!std::isfinite(facts.v[a])) continue;
      low_[a % dv] = std::min(low_[a % dv], facts.v[a]);
      high_[a % dv] = std::max(high_[a % dv], facts.v[a]);
    }
  }
  int64_t first_ = -1;
  int64_t Lk_ = -1;
  std::vector<double> low_;   // [dv]
  std::vector<double> high_;  // [dv]
};

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
  // Rotation errors need rotated_facts().
  if (problem.rotation.style != RopeStyle::kNone) std::abort();
  Impl& facts = *impl_;
  copy_inputs(problem, oracle, errors, facts);
  allocate(problem, facts);
  const Shape& shape = facts.shape;
  for (int64_t key = 0; key < shape.B * shape.Hkv * shape.Tk; ++key) {
    const double* k = facts.k.data() + key * shape.d;
    const double* dk = errors.k != nullptr ? errors.k + key * shape.d : nullptr;
    facts.k_sum[key] = abs_sum(k, dk, shape.d);
    facts.k_grid[key] = grid_of(k, shape.d);
  }
  const bool drifts = errors.q != nullptr || errors.k != nullptr;
  if (drifts) facts.drift.resize(shape.weights_elements());
  list_keys(oracle, facts);
  Reach reach;
  for (int64_t row = 0; row < shape.lse_elements(); ++row) {
    if (facts.visible[row] < 0) continue;
    FactsRow at;
    at.row = row;
    at.kv = row / (shape.group() * shape.Tq);
    const int64_t head = row / shape.Tq;
    at.place = PlainHooks::place(problem, head / shape.H, head % shape.H,
                                 row % shape.Tq);
    at.diagonal = PlainHooks::diagonal(problem, at.place);
    if (facts.visible[row] == 0) {
      lone_sink_facts(problem, at, facts);
      continue;
    }
    score_facts(problem, oracle, errors, at, facts);
    if (drifts) drift_facts(errors, row, at.kv, facts);
    value_facts(row, at.kv, facts);
    reach.of(at, facts);
  }
}

BoundFacts::BoundFacts(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BoundFacts::~BoundFacts() = default;
BoundFacts::BoundFacts(BoundFacts&&) noexcept = default;
BoundFacts& BoundFacts::operator=(BoundFacts&&) noexcept = default;

const std::vector<double>& BoundFacts::reach() const { return impl_->reach; }

}  // namespace qkvet::reference
