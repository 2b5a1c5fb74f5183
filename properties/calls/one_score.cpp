// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/one_score.h"

#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "properties/calls/raw_score.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {

Case with_one_score(Case value) {
  value.q = value.k = value.v = make_recipe(RecipeKind::kZero);
  value.set.clear();
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  // Some row must see two keys.
  if (value.causal == Causal::kTopLeft)
    value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  if (value.scale && *value.scale == 0) value.scale = 1.0f;
  return value;
}

Plan plan_one_score(const Case& value, InputEdit edit) {
  Plan plan;
  if (visible_keys(value, value.shape.Tq - 1) < 2) {
    plan.not_applicable = "no row sees two keys";
    return plan;
  }
  if (!has_raw_score(value)) {
    plan.not_applicable = "the given scale leaves no room for a raw score";
    return plan;
  }
  PlannedCall call;
  call.edit = edit;
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

// Key 0 is visible wherever any key is.
void put_one_score(const Case& value, double product, Inputs& inputs) {
  const Shape& s = value.shape;
  const int64_t hot = pick_by_seed(value.seed, s.d);
  for (size_t n = 0; n < inputs.q.size(); ++n)
    inputs.q[n] = static_cast<int64_t>(n) % s.d == hot ? product : 0;
  for (size_t n = 0; n < inputs.k.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    inputs.k[n] = at / s.d % s.Tk == 0 && at % s.d == hot ? 1 : 0;
  }
  for (size_t n = 0; n < inputs.v.size(); ++n)
    inputs.v[n] = static_cast<int64_t>(n) / s.dv % s.Tk == 0 ? 1 : 0;
}

std::vector<double> weights_of_one_score(const Case& value, double score) {
  const Shape& s = value.shape;
  const double others = std::exp(-score);
  std::vector<double> out(static_cast<size_t>(s.o_elements()));
  for (size_t n = 0; n < out.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / s.dv % s.Tq;
    const auto keys = static_cast<double>(visible_keys(value, row));
    out[n] = 1 / (1 + (keys - 1) * others);
  }
  return out;
}

std::optional<double> score_seen(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  const std::vector<double> o =
      as_doubles(input.calls[0].outcome->o, input.value.o_dtype);
  // The last row sees the most keys; its first channel represents all.
  const int64_t row = s.Tq - 1;
  const auto n = static_cast<double>(visible_keys(input.value, row));
  const double w = o[static_cast<size_t>(row * s.dv)];
  if (!(w > 0 && w < 1 && n > 1)) return std::nullopt;
  return std::log(w) - std::log1p(-w) + std::log(n - 1);
}

bool gives_all(const JudgeInput& input, double score, double right) {
  const Case& value = input.value;
  const std::vector<double> o =
      as_doubles(input.calls[0].outcome->o, value.o_dtype);
  const std::vector<double> given = weights_of_one_score(value, score);
  const std::vector<double> known = weights_of_one_score(value, right);
  const Truth* truth = input.calls[0].truth;
  if (truth == nullptr || truth->bound->o.size() != o.size()) return false;
  // A measured score carries the rounding of one weight: some 2^-20.
  constexpr double kFitError = 0x1p-12, kFar = 4;
  bool is_better = false;
  for (size_t n = 0; n < o.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / value.shape.dv;
    if (visible_keys(value, row % value.shape.Tq) == 0) continue;
    const double w = given[n];
    const double allowed = truth->bound->o[n] +
                           unit_roundoff(value.o_dtype) * w +
                           kFitError * std::fabs(score) * w * (1 - w);
    if (!(std::fabs(o[n] - w) <= allowed)) return false;
    is_better |= std::fabs(known[n] - w) > kFar * allowed;
  }
  return is_better;
}

bool has_two_numbers(const Case& value) {
  const int64_t last = visible_keys(value, value.shape.Tq - 1);
  for (int64_t i = 0; i < value.shape.Tq; ++i) {
    const int64_t keys = visible_keys(value, i);
    if (keys > 1 && keys != last) return true;
  }
  return false;
}

}  // namespace qkvet::properties
