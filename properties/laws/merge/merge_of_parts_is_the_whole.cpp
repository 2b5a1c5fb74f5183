// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_merge_of_parts_is_the_whole {

struct Part {
  double lse = 0, o = 0;
};

// Two states as one, exactly.
Part merged(const Part& a, const Part& b) {
  const double top = std::max(a.lse, b.lse);
  const double wa = std::exp(a.lse - top), wb = std::exp(b.lse - top);
  return {top + std::log(wa + wb), (wa * a.o + wb * b.o) / (wa + wb)};
}

// The first two states of a row are merged already, so that one less is left.
void merge_first_two(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  std::vector<double> v, bias;
  for_each_head(s, [&](int64_t t, int64_t h) {
    const int64_t first = place_of_state(s, t, h, 0);
    const auto part = [&](int64_t n, int64_t c) {
      return Part{inputs.bias[static_cast<size_t>(first + n)],
                  inputs.v[static_cast<size_t>((first + n) * s.dv + c)]};
    };
    for (int64_t c = 0; c < s.dv; ++c)
      v.push_back(merged(part(0, c), part(1, c)).o);
    bias.push_back(merged(part(0, 0), part(1, 0)).lse);
    v.insert(v.end(), inputs.v.begin() + (first + 2) * s.dv,
             inputs.v.begin() + (first + s.Tk) * s.dv);
    bias.insert(bias.end(), inputs.bias.begin() + first + 2,
                inputs.bias.begin() + first + s.Tk);
  });
  inputs.v = std::move(v);
  inputs.bias = std::move(bias);
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan = plan_merge_edit(merge_first_two);
  plan.calls.insert(plan.calls.begin(), merge_call());
  plan.calls[1].variant = value;
  --plan.calls[1].variant->shape.Tk;
  return plan;
}

// The largest distance between a number and its stored value.
double stored_error(double value, Dtype dtype) {
  return unit_roundoff(dtype) * std::fabs(value) + underflow_error(dtype);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Shape& s = input.value.shape;
  const Dtype dtype = input.value.o_dtype, lse_type = lse_dtype(dtype);
  const CallView& whole = input.calls[0];
  const CallView& parts = input.calls[1];
  const std::vector<double> first = as_doubles(whole.outcome->o, dtype);
  const std::vector<double> second = as_doubles(parts.outcome->o, dtype);
  const std::vector<double> first_lse =
      as_doubles(whole.outcome->lse, lse_type);
  const std::vector<double> second_lse =
      as_doubles(parts.outcome->lse, lse_type);
  const double unit = lse_unit(input.kernel);
  for_each_head(s, [&](int64_t t, int64_t h) {
    const int64_t row = t * s.H + h;
    const auto part = static_cast<size_t>(row * (s.Tk - 1));
    // Stored in the kernel's base, and read from there.
    const double lse_error =
        2 * stored_error(parts.inputs->bias[part], lse_type);
    const auto check = [&](TensorName tensor, int64_t n, double a, double b,
                           double bounds, double reach) {
      auto finding =
          compare_two_ways({a,
                            b,
                            bounds,
                            reach,
                            tensor == TensorName::kO ? dtype : lse_type,
                            "all states at once",
                            "two of them merged before",
                            {tensor, n, -1}},
                           judgement);
      if (!finding) return;
      finding->where = element_name(tensor, s, n);
      finding->looks = "lse is not the logarithm of what o was divided by";
      add_failure(judgement, std::move(*finding));
    };
    for (int64_t c = 0; c < s.dv; ++c) {
      const int64_t n = row * s.dv + c;
      const auto at = static_cast<size_t>(n);
      double low =
          parts.inputs
              ->v[part * static_cast<size_t>(s.dv) + static_cast<size_t>(c)];
      double high = low;
      const double o_error = stored_error(low, input.value.kv_dtype);
      for (int64_t state = 1; state < s.Tk - 1; ++state) {
        const double o = parts.inputs->v[(part + static_cast<size_t>(state)) *
                                             static_cast<size_t>(s.dv) +
                                         static_cast<size_t>(c)];
        low = std::min(low, o);
        high = std::max(high, o);
      }
      check(TensorName::kO, n, first[at], second[at],
            whole.truth->bound->o[at] + parts.truth->bound->o[at] + o_error +
                std::expm1(2 * lse_error) * (high - low + o_error),
            (*whole.truth->reach)[at]);
    }
    const auto at = static_cast<size_t>(row);
    check(TensorName::kLse, row, first_lse[at], second_lse[at],
          whole.truth->bound->lse[at] + parts.truth->bound->lse[at] +
              lse_error * unit,
          0);
  });
  return judgement;
}

}  // namespace of_merge_of_parts_is_the_whole

extern constinit const Law merge_of_parts_is_the_whole{
    "merge_of_parts_is_the_whole",
    "Merging some states before the others gives the merge of all.",
    "merge(merge(a, b), c) = merge(a, b, c)",
    "three states; as many of every row",
    "exp(lse) of a merged state is the sum of those of its parts.",
    "Weights off by expm1(2 e) of themselves, e the rounding of the stored "
    "lse, move an average of the states by that share of their distance; the "
    "stored o is off by its rounding.",
    "(c) it sets o against lse, (d) it needs no oracle",
    70,
    Domain{.subject = Subject::kMerge, .allows = kAllowMerge},
    with_states<3>,
    of_merge_of_parts_is_the_whole::plan,
    of_merge_of_parts_is_the_whole::judge};

}  // namespace qkvet::properties
