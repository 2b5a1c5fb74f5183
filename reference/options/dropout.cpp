// SPDX-License-Identifier: Apache-2.0
// The forward pass with dropout (bounds.md, "Dropout").
#include "reference/options/dropout.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "reference/bound/bound_impl.h"
#include "reference/options/dropout_rows.h"

namespace qkvet::reference {

std::string dropout_not_derived(const Problem& forward) {
  if (forward.rotation.style != RopeStyle::kNone)
    return "no bound is derived for dropout beside a rotation";
  if (forward.slopes != nullptr)
    return "no bound is derived for dropout beside ALiBi";
  return forward.cu_q != nullptr
             ? "no bound is derived for dropout in a packed batch"
             : "";
}

DropoutRow::DropoutRow(const DropoutProblem& problem,
                       const OracleOutput& forward)
    : all_(problem), forward_(forward), problem_(problem.forward) {
  if (!dropout_not_derived(problem.forward).empty()) std::abort();
  const Shape& s = all_.forward.shape;
  problem_.shape = {1, 1, 1, 1, s.Tk, s.d, s.dv};
  problem_.causal = Causal::kNone;
  problem_.window.reset();
  problem_.q_len = nullptr;
  problem_.kv_len = &keys_;
  values_.resize(s.Tk * s.dv);
}

void DropoutRow::move_to(int64_t row) {
  const Problem& call = all_.forward;
  const Shape& s = call.shape;
  const int64_t b = row / (s.H * s.Tq);
  row_ = row;
  h_ = row / s.Tq % s.H;
  kv_ = b * s.Hkv + h_ / s.group();
  keys_ = call.kv_len != nullptr ? call.kv_len[b] : s.Tk;
  problem_.q = call.q + row * s.d;
  problem_.k = call.k + kv_ * s.Tk * s.d;
  problem_.v = values_.data();
  problem_.mask = forward_.sees.data() + row * s.Tk;
  if (call.bias != nullptr) problem_.bias = call.bias + row * s.Tk;
  if (call.sink != nullptr) problem_.sink = call.sink + h_;
  const double* v = call.v + kv_ * s.Tk * s.dv;
  for (int64_t j = 0; j < keys_; ++j) {
    const double f = factor(j);
    for (int64_t t = 0; t < s.dv; ++t)
      values_[j * s.dv + t] = f == 0 ? 0 : f * v[j * s.dv + t];
  }
}

double DropoutRow::factor(int64_t key) const {
  const bool kept = all_.kept[row_ * all_.forward.shape.Tk + key] != 0;
  return kept ? 1 / (1 - all_.p) : 0;
}

OracleOutput DropoutRow::output() const {
  const Shape& s = all_.forward.shape;
  const auto part = [](const auto& all, int64_t first, int64_t count) {
    return std::vector(all.begin() + first, all.begin() + first + count);
  };
  OracleOutput out;
  out.o = part(forward_.o, row_ * s.dv, s.dv);
  out.lse = part(forward_.lse, row_, 1);
  out.weights = part(forward_.weights, row_ * s.Tk, s.Tk);
  out.visible = part(forward_.visible, row_, 1);
  out.sees = part(forward_.sees, row_ * s.Tk, s.Tk);
  return out;
}

const std::vector<double>& DropoutRow::value_errors(
    const PrecisionModel& model) {
  const double u = model.softmax_u();
  // Values that are rounded before they meet the factor.
  const double floor = model.operand.floor / (1 - all_.p);
  errors_.assign(values_.size(), 0.0);
  const int64_t dv = all_.forward.shape.dv;
  for (int64_t n = 0; n < keys_ * dv; ++n)
    if (values_[n] != 0)
      errors_[n] =
          kDropoutRoundings * u * second_order(u) * std::fabs(values_[n]) +
          floor;
  return errors_;
}

std::vector<double> DropoutRow::value_sums() const {
  const int64_t dv = all_.forward.shape.dv;
  std::vector<double> sums(dv);
  for (int64_t j = 0; j < keys_; ++j)
    for (int64_t t = 0; t < dv && problem_.mask[j] != 0; ++t)
      sums[t] += std::fabs(values_[j * dv + t]);
  return sums;
}

OracleOutput plain_dropout(const DropoutProblem& problem) {
  return plain_dropout_with<PlainDropoutHooks>(problem);
}

OracleOutput twin_dropout(const DropoutProblem& problem) {
  const OracleOutput without = twin_forward(problem.forward);
  OracleOutput out = without;
  const Shape& s = problem.forward.shape;
  DropoutRow row(problem, without);
  for (int64_t r = 0; r < s.lse_elements(); ++r) {
    if (without.visible[r] <= 0) continue;
    row.move_to(r);
    const OracleOutput alone = twin_forward(row.problem());
    std::copy(alone.o.begin(), alone.o.end(), out.o.begin() + r * s.dv);
  }
  return out;
}

DropoutBound dropout_bound(const DropoutProblem& problem,
                           const OracleOutput& forward,
                           const PrecisionModel& model) {
  const Shape& s = problem.forward.shape;
  DropoutBound bound;
  bound.o.assign(s.o_elements(), 0.0);
  bound.reach.assign(s.o_elements(), 0.0);
  const double lambda = model.range.lambda(model.ftz);
  DropoutRow row(problem, forward);
  for (int64_t r = 0; r < s.lse_elements(); ++r) {
    if (forward.visible[r] <= 0) continue;
    row.move_to(r);
    const InputErrors errors = {nullptr, nullptr,
                                row.value_errors(model).data()};
    const BoundFacts facts(row.problem(), row.output(), errors);
    const Bound alone = compute_bound(facts, model, /*want_weights=*/false);
    const std::vector<double> sums = row.value_sums();
    for (int64_t t = 0; t < s.dv; ++t) {
      bound.o[r * s.dv + t] = alone.o[t] + 2 * lambda * (1 + sums[t]);
      bound.reach[r * s.dv + t] = facts.reach()[t];
    }
  }
  return bound;
}

}  // namespace qkvet::reference
