// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/half.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_alibi_equals_bias {

// A power of two for each head, and each row of slopes: its products with
// distances are exact in every storage type.
double slope_of(const Case& value, int64_t row, int64_t h) {
  const int64_t n = pick_by_seed(value.seed, 8) + h + 3 * row;
  return std::ldexp(1.0, static_cast<int>(-1 - n % 8));
}

void exact_slopes(const Case& value, int64_t, Inputs& inputs) {
  const int64_t H = value.shape.H;
  for (int64_t n = 0; n < std::ssize(inputs.slopes); ++n)
    inputs.slopes[static_cast<size_t>(n)] = slope_of(value, n / H, n % H);
}

void slopes_as_bias(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Visibility visibility(value, inputs);
  inputs.slopes.clear();
  inputs.bias.clear();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j) {
          const int64_t distance = std::abs(visibility.diagonal(b, i) - j);
          const int64_t row = slope_row(value, b, i);
          inputs.bias.push_back(-slope_of(value, row, h) *
                                static_cast<double>(distance));
        }
}

Case constrain(Case value) {
  if (!value.slopes) value.slopes = make_recipe(RecipeKind::kOne);
  return without_set_values(std::move(value), TensorName::kSlopes);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = with_own_bias(value);
  variant.slopes.reset();
  variant.member_slopes = false;
  Plan plan = plan_two_forms(kernel, variant, slopes_as_bias);
  plan.calls[0].edit = exact_slopes;
  // Rows that count are no further from a key than the longer extent.
  const int64_t longest = std::max(value.shape.Tq, value.shape.Tk);
  if (static_cast<double>(longest) * unit_roundoff(value.q_dtype) > 1)
    plan.not_applicable = "distances are not exact in the bias's type";
  if (!kernel.has_option(QKVET_OPTION_BIAS))
    plan.unsupported = "a bias is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "ALiBi";
  pair.second_name = "its bias written out";
  pair.looks =
      "the distance is counted from another diagonal, or the slope is "
      "another head's";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_alibi_equals_bias

extern constinit const Law alibi_equals_bias{
    "alibi_equals_bias",
    "ALiBi equals the bias that it defines.",
    "forward(slopes) = forward(bias), bias[h,i,j] = -slope[h] |D(i) - j|",
    "ALiBi, no bias beside it; the kernel takes a bias as well",
    "Slopes that are powers of two times distances below 256 are exact, and "
    "both are added to the score.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    420,
    Domain{.free_data = false,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_ALIBI |
                     QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory,
           .about = QKVET_OPTION_ALIBI},
    of_alibi_equals_bias::constrain,
    of_alibi_equals_bias::plan,
    of_alibi_equals_bias::judge};

}  // namespace qkvet::properties
