// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "properties/calls/call_pairs.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_one_bias_for_a_row_changes_nothing {

// -10^N or 10^N of the case, as its type stores it, or the largest number of
// the type.
double number_of(const Case& value) {
  const double largest = largest_finite(value.q_dtype);
  return round_to(value.q_dtype, std::clamp(masking_number(*value.score_bias),
                                            -largest, largest));
}

// One row in four keeps a bias of 0.
double bias_of_row(const Case& value, int64_t i) {
  return i % 4 == 3 ? 0 : number_of(value);
}

void write_rows(const Case& value, int64_t with_number, Inputs& inputs) {
  const Shape& s = value.shape;
  double* at = inputs.bias.data();
  for (int64_t n = 0; n < s.B * s.H * s.Tq; ++n, at += s.Tk)
    std::fill_n(at, s.Tk,
                with_number != 0 ? bias_of_row(value, n % s.Tq) : 0.0);
}

Case constrain(Case value) {
  value = with_own_bias(std::move(value));
  if (!is_of_bias_alone(value.score_bias->kind))
    value.score_bias = make_recipe(RecipeKind::kMaskingN);
  // Far from zero, on one side: a row of zeros is no average of these.
  value.v = make_recipe(RecipeKind::kOffsetN);
  value = without_set_values(std::move(value), TensorName::kV);
  return without_set_values(std::move(value), TensorName::kBias);
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan = plan_pair(kernel, write_rows, 1);
  plan.calls[0].edit = write_rows;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "a bias of 0";
  pair.second_name = "one number at every key of a row";
  // Not compared if the logarithm of the number to base 2 does not fit its
  // type.
  pair.lse_offset = [&](const Element& at) {
    return bias_of_row(input.value, at.i);
  };
  pair.looks =
      "a row whose whole bias is far below is taken for one without a key, or "
      "overflows on the way";
  const bool overflows =
      lse_unit(input.kernel) * std::fabs(number_of(input.value)) >
      largest_finite(Dtype::kF32);
  if (overflows)
    compare_within_bounds(input, pair, judgement, {TensorName::kO});
  else
    compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_one_bias_for_a_row_changes_nothing

extern constinit const Law one_bias_for_a_row_changes_nothing{
    "one_bias_for_a_row_changes_nothing",
    "A row with the same bias at every key equals the row without a bias, also "
    "for -10000, -1e9 and the lowest number of its type.",
    "softmax(s + a) = softmax(s); lse grows by a",
    "a bias; no softcap, no sink; V far from zero",
    "Every score of the row grows by the same number: a finite bias hides a "
    "key only beside keys with a larger one.",
    "Each side is within its own bound of the same number. Where the number "
    "swallows the scores the bound is the hull of V, which is far from zero.",
    "(a) NaN and zeros are far outside of every bound, (d) it needs no oracle",
    207,
    Domain{.free_v = false,
           .allows = kAllowPairs | QKVET_OPTION_BIAS | kAllowMemory,
           .about = QKVET_OPTION_BIAS},
    of_one_bias_for_a_row_changes_nothing::constrain,
    of_one_bias_for_a_row_changes_nothing::plan,
    of_one_bias_for_a_row_changes_nothing::judge};

}  // namespace qkvet::properties
