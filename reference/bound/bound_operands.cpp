// SPDX-License-Identifier: Apache-2.0
// The facts of a call if q, k and v may be rounded to a narrower type before
// their products: those of uncertain inputs, each with an error of its distance
// to the nearest number of that type (bounds.md, "Rounded operands").
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// Replaces a number that became infinite: nothing computed from it is judged.
constexpr double kOverflows = 1e200;

// The rounding error of an operand x. If a scale, or its root, may be applied
// first, the nearest number of x is irrelevant.
class Operand {
 public:
  Operand(const Rounding& rounding, bool scaled, double scale, double lambda)
      : rounding_(rounding), scaled_(scaled), lambda_(lambda) {
    if (scaled && scale > 0) unit_ = std::min(1.0, scale);
    if (scaled) largest_ /= std::max(1.0, scale);
    largest_ *= rounding.largest;
  }
  double off(double x) const {
    const double size = std::fabs(x);
    if (!(size < largest_)) return std::isnan(x) ? 0 : kOverflows;
    if (!scaled_) return rounding_.exactly(x);
    return std::min(size, std::max(rounding_.u * size, floor()));
  }
  // The error of an operand that is not known exactly, in proportion to its
  // size and on top.
  double u() const { return rounding_.u; }
  double of(double sum, int64_t count) const {
    return rounding_.u * sum + static_cast<double>(count) * floor();
  }
  double floor() const { return std::max(rounding_.floor, lambda_) / unit_; }

 private:
  const Rounding& rounding_;
  bool scaled_;
  double lambda_;
  double unit_ = 1;
  double largest_ = 1;
};

std::vector<double> offs(const Operand& operand, const std::vector<double>& x) {
  std::vector<double> off(x.size());
  for (size_t i = 0; i < x.size(); ++i) off[i] = operand.off(x[i]);
  return off;
}

double sum_of(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t c = 0; c < count; ++c) sum += x[c];
  return sum;
}

bool nothing_drifts(const BoundFacts::Impl& facts) {
  return std::all_of(facts.drift.begin(), facts.drift.end(),
                     [](double drift) { return drift == 0; });
}

class Rounded {
 public:
  Rounded(BoundFacts::Impl& facts, const PrecisionModel& model)
      : facts_(facts),
        q_(model.operand, model.scale_stage == ScaleStage::kOnQ, facts.scale,
           model.range.lambda(model.ftz)),
        k_(model.operand, model.scale_split, facts.scale,
           model.range.lambda(model.ftz)),
        v_(model.operand, false, 1, 0),
        known_(nothing_drifts(facts)) {}

  void run() {
    const Shape& s = facts_.shape;
    dq_ = offs(q_, facts_.q);
    dk_ = offs(k_, facts_.k);
    dv_ = offs(v_, facts_.v);
    values();
    if (facts_.drift.empty()) facts_.drift.assign(s.weights_elements(), 0.0);
    for (int64_t row = 0; row < s.lse_elements(); ++row) {
      if (facts_.visible[row] > 0) one_row(row);
    }
    for (int64_t key = 0; key < s.B * s.Hkv * s.Tk; ++key) {
      facts_.k_sum[key] += known_ ? sum_of(dk_.data() + key * s.d, s.d)
                                  : k_.of(facts_.k_sum[key], s.d);
    }
  }

 private:
  void values() {
    const bool known = facts_.v_error.empty();
    if (known) {
      facts_.v_error = dv_;
      facts_.v_drift.assign(facts_.shape.o_elements(), 0.0);
    }
    for (size_t i = 0; i < dv_.size(); ++i) {
      // An uncertain value rounds at any place.
      const bool exact = known || facts_.v_error[i] == 0;
      const double own = exact ? dv_[i] : v_.of(facts_.v_size[i], 1);
      if (!known) facts_.v_error[i] += own;
      facts_.v_size[i] += own;
    }
  }

  int64_t key_of(int64_t row, int64_t a) const {
    const int64_t Tk = facts_.shape.Tk;
    return facts_.keys.empty() ? a : facts_.keys[row * Tk + a];
  }

  void one_row(int64_t row) {
    const Shape& s = facts_.shape;
    const int64_t kv = row / (s.group() * s.Tq);
    for (int64_t a = 0; a < facts_.visible[row]; ++a) {
      const int64_t key = kv * s.Tk + key_of(row, a);
      const int64_t pair = row * s.Tk + a;
      // Without drift, factors are exact or multiplied by zero.
      const double moved = facts_.drift[pair] == 0
                               ? exact_drift(row, key)
                               : sized_drift(row, key, pair);
      facts_.magnitude[pair] += moved;
      facts_.drift[pair] += facts_.scale * moved;
    }
    const double* dq = dq_.data() + row * s.d;
    if (known_) {
      facts_.q_sum[row] += sum_of(dq, s.d);
      facts_.q_max[row] += *std::max_element(dq, dq + s.d);
    } else {
      facts_.q_sum[row] += q_.of(facts_.q_sum[row], s.d);
      facts_.q_max[row] += q_.of(facts_.q_max[row], 1);
    }
    for (int64_t t = 0; t < s.dv; ++t) row_value(row, kv, t);
  }

  double exact_drift(int64_t row, int64_t key) const {
    const int64_t d = facts_.shape.d;
    const double* q = facts_.q.data() + row * d;
    const double* k = facts_.k.data() + key * d;
    const double* dq = dq_.data() + row * d;
    const double* dk = dk_.data() + key * d;
    double drift = 0;
    for (int64_t c = 0; c < d; ++c) {
      drift += dq[c] * std::fabs(k[c]) + (std::fabs(q[c]) + dq[c]) * dk[c];
    }
    return drift;
  }

  // The drift of q and k at any place within the sizes.
  double sized_drift(int64_t row, int64_t key, int64_t pair) const {
    const auto d = static_cast<double>(facts_.shape.d);
    const double u = q_.u();
    return (2 * u + u * u) * facts_.magnitude[pair] +
           (1 + u) * (q_.floor() * facts_.k_sum[key] +
                      k_.floor() * facts_.q_sum[row]) +
           d * q_.floor() * k_.floor();
  }

  // The sums and extremes of one column.
  void row_value(int64_t row, int64_t kv, int64_t t) {
    const Shape& s = facts_.shape;
    const int64_t at = row * s.dv + t;
    facts_.v_sum[at] = facts_.v_max[at] = facts_.v_drift[at] = 0;
    for (int64_t a = 0; a < facts_.visible[row]; ++a) {
      const int64_t i = (kv * s.Tk + key_of(row, a)) * s.dv + t;
      const double size = facts_.v_size[i];
      facts_.v_sum[at] += size;
      facts_.v_max[at] = std::max(facts_.v_max[at], size);
      facts_.v_drift[at] = std::max(facts_.v_drift[at], facts_.v_error[i]);
      if (facts_.v_error[i] > 0) facts_.v_integer[at] = 0;
    }
  }

  BoundFacts::Impl& facts_;
  const Operand q_, k_, v_;
  const bool known_;  // q and k are exact without this
  std::vector<double> dq_, dk_, dv_;
};

}  // namespace

BoundFacts with_rounded_operands(const BoundFacts& facts,
                                 const PrecisionModel& model) {
  auto rounded = std::make_unique<BoundFacts::Impl>(facts.impl());
  Rounded(*rounded, model).run();
  return BoundFacts(std::move(rounded));
}

}  // namespace qkvet::reference
