// SPDX-License-Identifier: Apache-2.0
#include "reference/options/rope.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/power_of_two.h"
#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

// Stands for an overflow: above every sum that is judged, and its products are
// still finite.
constexpr double kOverflows = 1e200;

// Whether rounding to a format of unit roundoff `u` leaves x alone; its floor
// is the business of the caller.
bool is_representable(double x, double u, double floor) {
  if (x == 0) return true;
  const double bit = power_of_two(lowest_bit(x));
  // u is half of the last of 2^-p: p bits.
  return std::fabs(x) * u < bit && bit >= 2 * floor;
}

// a x + b y of a pair, x and y its cos and sin in some order and sign; a and b
// are off by da and db.
struct Turned {
  double a, x, b, y;
  double da, db;

  double value() const { return a * x + b * y; }
  // One product is an exact zero, the other a product by 1: nothing rounds.
  bool is_exact() const {
    if (da != 0 || db != 0) return false;
    const bool first = b * y == 0 && (a == 0 || std::fabs(x) == 1 || x == 0);
    const bool second = a * x == 0 && (b == 0 || std::fabs(y) == 1 || y == 0);
    return first || second;
  }
};

double error_of(const Turned& turned, const PrecisionModel& model) {
  const double size = std::fabs(turned.value());
  double error = 0;
  if (turned.is_exact()) {
    if (model.ftz && size < model.range.least_normal())
      error = model.range.lambda(true);
  } else {
    const double terms =
        (std::fabs(turned.a) + turned.da) * std::fabs(turned.x) +
        (std::fabs(turned.b) + turned.db) * std::fabs(turned.y);
    // Two products and a sum; the same in the double of rotated().
    error = turned.da * std::fabs(turned.x) + turned.db * std::fabs(turned.y) +
            2 * (model.u * second_order(model.u) + kOracleU) * terms +
            3 * model.range.lambda(model.ftz);
  }
  const bool stays =
      error == 0 &&
      is_representable(turned.value(), model.rope_u, model.rope_floor);
  if (model.rope_u > 0 && !stays)
    error += model.rope_u * (size + error) + model.rope_floor;
  if (std::isnan(size)) return 0;           // beyond the lengths
  if (!std::isfinite(error)) return error;  // of what is off by an infinity
  return size + error > model.rope_largest ? kOverflows : error;
}

std::vector<double> errors_of(const Rotation& rotation, const RopeRows& rows,
                              const PrecisionModel& model, const double* before,
                              TurnWay way) {
  const auto sign = static_cast<double>(way);
  const int64_t elements = rows.B * rows.heads * rows.rows * rows.d;
  std::vector<double> errors(elements);
  const auto turned_channels = PlainRopeHooks::turned(rotation, rows.d);
  // Channels that are not turned: x 1 + 0 0, which rounds nothing.
  for (int64_t e = 0; e < elements; ++e) {
    if (e % rows.d < turned_channels) continue;
    const double off = before != nullptr ? before[e] : 0;
    errors[e] = error_of({rows.data[e], 1, 0, 0, off, 0}, model);
  }
  for_each_pair<PlainRopeHooks>(
      rotation, rows, [&](int64_t first, int64_t second, int64_t table) {
        const double cos = rotation.cos[table];
        const double sin = sign * rotation.sin[table];
        Turned turned = {rows.data[first], cos, rows.data[second], -sin, 0, 0};
        if (before != nullptr) {
          turned.da = before[first];
          turned.db = before[second];
        }
        errors[first] = error_of(turned, model);
        turned.x = sin;
        turned.y = cos;
        errors[second] = error_of(turned, model);
      });
  return errors;
}

// From the bound of a gradient of rotated rows to that of the rows before it.
class TurnedBack {
 public:
  TurnedBack(const Rotation& rotation, const PrecisionModel& model)
      : rotation_(rotation), of_operand_(model), of_result_(model) {
    // The result of the rotation is rounded to the output, once.
    of_result_.rope_u = of_result_.rope_floor = 0;
    of_result_.rope_largest = model.output_largest;
  }

  // `rows`: of the gradient's extents.
  void turn(const RopeRows& rows, const std::vector<double>& gradient,
            std::vector<double>& bound, std::vector<double>& reach) const {
    for (size_t e = 0; e < bound.size(); ++e)
      bound[e] = as_operand(gradient[e], bound[e]);
    std::vector<double> turned =
        errors_of(rotation_, with_data(rows, gradient), of_result_,
                  bound.data(), TurnWay::kBack);
    for_each_pair<PlainRopeHooks>(
        rotation_, rows, [&](int64_t first, int64_t second, int64_t) {
          for (const int64_t e : {first, second}) {
            // 0 for every kernel; an infinity times a sine of 0 is a NaN.
            const double most = std::max(bound[first], bound[second]);
            const bool none =
                most == 0 && gradient[first] == 0 && gradient[second] == 0;
            if (none) turned[e] = 0;
            if (!(std::max(most, turned[e]) < kOverflows))
              turned[e] = std::numeric_limits<double>::infinity();
          }
        });
    bound = std::move(turned);
    for (size_t e = 0; e < turned.size(); ++e)
      if (static_cast<int64_t>(e) % rows.d >= rotation_.channels &&
          !(std::max(bound[e], turned[e]) < kOverflows))
        turned[e] = std::numeric_limits<double>::infinity();
    reach = plain_rotate<TurnedSizes>(rotation_, with_data(rows, reach));
  }

 private:
  // The gradient may be rounded to half on its way into the rotation, as
  // rotated q and k are on their way out of it.
  double as_operand(double x, double off) const {
    const double size = std::fabs(x) + off;
    if (!(size <= of_operand_.rope_largest)) return kOverflows;
    if (of_operand_.rope_u == 0 || size == 0) return off;
    return off + of_operand_.rope_u * size + of_operand_.rope_floor;
  }

  const Rotation& rotation_;
  PrecisionModel of_operand_;
  PrecisionModel of_result_;
};

}  // namespace

RotatedProblem rotated(const Problem& problem) {
  RotatedProblem out;
  out.q = plain_rotate<PlainRopeHooks>(problem.rotation, query_rows(problem));
  out.k = plain_rotate<PlainRopeHooks>(problem.rotation, key_rows(problem));
  out.problem = problem;
  out.problem.rotation = {};
  out.problem.q = out.q.data();
  out.problem.k = out.k.data();
  return out;
}

RotationErrors rotation_errors(const Problem& problem,
                               const PrecisionModel& model,
                               const InputErrors& before, TurnWay way) {
  return {
      errors_of(problem.rotation, query_rows(problem), model, before.q, way),
      errors_of(problem.rotation, key_rows(problem), model, before.k, way)};
}

BoundFacts rotated_facts(const Problem& problem, const OracleOutput& oracle,
                         const PrecisionModel& model,
                         const InputErrors& before) {
  const RotatedProblem turned = rotated(problem);
  const RotationErrors errors = rotation_errors(problem, model, before);
  return {turned.problem, oracle, {errors.q.data(), errors.k.data(), before.v}};
}

Bound bound_of(const Problem& problem, const OracleOutput& oracle,
               const PrecisionModel& model, bool want_weights) {
  if (problem.rotation.style == RopeStyle::kNone)
    return compute_bound(BoundFacts(problem, oracle), model, want_weights);
  return compute_bound(rotated_facts(problem, oracle, model), model,
                       want_weights);
}

GradientBound gradient_bound_of(const GradientProblem& problem,
                                const OracleOutput& forward,
                                const GradientOutput& truth,
                                const PrecisionModel& model) {
  const Problem& call = problem.forward;
  if (call.rotation.style == RopeStyle::kNone)
    return backward_bound(problem, forward, truth, model);
  const RotatedProblem turned = rotated(call);
  GradientProblem inner = problem;
  inner.forward = turned.problem;
  const RotationErrors off = rotation_errors(call, model);
  GradientErrors errors;
  errors.inputs = {off.q.data(), off.k.data(), nullptr};
  const GradientOutput before = plain_backward(inner);
  GradientBound bound =
      backward_bound(inner, BoundFacts(inner.forward, forward, errors.inputs),
                     before, model, errors);
  const TurnedBack back(call.rotation, model);
  back.turn(query_rows(call), before.q, bound.q, bound.reach.q);
  back.turn(key_rows(call), before.k, bound.k, bound.reach.k);
  return bound;
}

}  // namespace qkvet::reference
