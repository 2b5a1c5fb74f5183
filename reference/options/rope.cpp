// SPDX-License-Identifier: Apache-2.0
#include "reference/options/rope.h"

#include <algorithm>
#include <cmath>

#include "core/base/power_of_two.h"
#include "reference/attention/plain_rope.h"
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
                              const PrecisionModel& model,
                              const double* before) {
  std::vector<double> errors(rows.B * rows.heads * rows.rows * rows.d);
  for_each_pair<PlainRopeHooks>(
      rotation.style, rows, [&](int64_t first, int64_t second, int64_t table) {
        const double cos = rotation.cos[table];
        const double sin = rotation.sin[table];
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
                               const InputErrors& before) {
  return {errors_of(problem.rotation, query_rows(problem), model, before.q),
          errors_of(problem.rotation, key_rows(problem), model, before.k)};
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

}  // namespace qkvet::reference
