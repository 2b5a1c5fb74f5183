// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_rows_stay_in_hull {

// Every value of a column becomes the largest of its head. The bound of this
// call then covers every error of sums and of the normaliser that the case
// itself can have: they grow with |v|, and its scores are the same.
void largest_values(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t head = 0; head < s.B * s.Hkv; ++head)
    for (int64_t c = 0; c < s.dv; ++c) {
      double* const column = inputs.v.data() + head * s.Tk * s.dv + c;
      double largest = 0;
      for (int64_t j = 0; j < s.Tk; ++j)
        largest = std::fmax(largest, std::fabs(column[j * s.dv]));
      for (int64_t j = 0; j < s.Tk; ++j)
        if (!std::isnan(column[j * s.dv])) column[j * s.dv] = largest;
    }
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  PlannedCall call;
  call.needs_truth = true;
  plan.calls.push_back(call);
  call.edit = largest_values;
  plan.calls.push_back(call);
  return plan;
}

struct Hull {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

Hull hull_of(const JudgeInput& input, int64_t b, int64_t h, int64_t i,
             int64_t c) {
  const Shape& s = input.value.shape;
  const double* const column = input.calls[0].inputs->v.data() +
                               (b * s.Hkv + h / s.group()) * s.Tk * s.dv + c;
  Hull hull;
  for (int64_t j = 0; j < s.Tk; ++j) {
    if (!input.visibility->sees(b, h, i, j)) continue;
    // The value as a declared operand is the nearest number of its type.
    const double v = column[j * s.dv];
    const double off = input.model.operand.exactly(v);
    hull.low = std::min(hull.low, v - off);
    hull.high = std::max(hull.high, v + off);
  }
  return hull;
}

// Equal scores are exact. The largest value may then be a whole number with
// exact sums, even if those of the case are not exact.
double allowed(const JudgeInput& input, size_t n) {
  const Shape& s = input.value.shape;
  const double with_largest = input.calls[1].truth->bound->o[n];
  const double* const q =
      input.calls[0].inputs->q.data() + static_cast<int64_t>(n) / s.dv * s.d;
  const bool flat = std::all_of(q, q + s.d, [](double x) { return x == 0; });
  return flat ? std::max(with_largest, input.calls[0].truth->bound->o[n])
              : with_largest;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Shape& s = input.value.shape;
  const Dtype dtype = input.value.o_dtype;
  const std::vector<double> o = as_doubles(input.calls[0].outcome->o, dtype);
  for (size_t n = 0; n < o.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t row = at / s.dv;
    const Hull hull = hull_of(input, row / s.Tq / s.H, row / s.Tq % s.H,
                              row % s.Tq, at % s.dv);
    if (hull.low > hull.high) continue;  // no key: the dialect's
    const double nearest = std::clamp(o[n], hull.low, hull.high);
    auto finding = compare_with_bound({o[n],
                                       std::isnan(o[n]) ? hull.low : nearest,
                                       allowed(input, n),
                                       0,
                                       dtype,
                                       /*before_rounding=*/false,
                                       {TensorName::kO, at, 0}},
                                      judgement);
    if (!finding) continue;
    finding->where = element_name(TensorName::kO, s, at);
    finding->expected = number_text(hull.low, dtype) + " .. " +
                        number_text(hull.high, dtype) +
                        ", the values that the row sees";
    finding->looks = "weights that are negative, or do not add up to one";
    add_failure(judgement, std::move(*finding));
  }
  return judgement;
}

}  // namespace of_rows_stay_in_hull

extern constinit const Law rows_stay_in_hull{
    "rows_stay_in_hull",
    "A row stays in the hull of the values that it sees: no output is "
    "above the largest or below the smallest of them.",
    "min_j v[j,c] <= o[i,c] <= max_j v[j,c]",
    "the row sees a key",
    "Weights are not negative and add up to one.",
    "Only the rounding of sums and of the division leaves the hull. It is at "
    "most that of the same row with every value as large as the largest; "
    "errors of scores cannot leave the hull.",
    "(b) the errors of the scores cancel, (d) it needs no oracle",
    190,
    Domain{.own_values = true,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_BIAS |
                     QKVET_OPTION_ALIBI | QKVET_OPTION_SOFTCAP | kAllowMemory |
                     QKVET_OPTION_KEY_LISTS | kAllowFields},
    as_it_is,
    of_rows_stay_in_hull::plan,
    of_rows_stay_in_hull::judge};

}  // namespace qkvet::properties
