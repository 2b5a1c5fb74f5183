// SPDX-License-Identifier: Apache-2.0
// The same values, once as a view of the keys and once in memory of their own.
#include <algorithm>

#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_values_in_keys_equal_own_values {

// The first dv channels of the keys, if the keys of the case are those of its
// variant.
void copy_values(const Case& value, int64_t, Inputs& inputs) {
  const int64_t d = value.shape.d, dv = value.shape.dv;
  for (size_t row = 0; d > 0 && row < inputs.k.size() / static_cast<size_t>(d);
       ++row) {
    const auto from = inputs.k.begin() + static_cast<int64_t>(row) * d;
    std::copy_n(from, dv, inputs.v.begin() + static_cast<int64_t>(row) * dv);
  }
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.values_in_keys = false;
  Plan plan = plan_two_forms(kernel, variant, copy_values);
  if (kernel.has_flag(QKVET_FLAG_VALUES_IN_KEYS_ONLY))
    plan.unsupported = "values apart from keys are not declared";
  return plan;
}

Case constrain(Case value) {
  value.values_in_keys = true;
  value.shape.dv = std::min(value.shape.dv, value.shape.d);
  return value;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "values that lie in the keys";
  pair.second_name = "the same values apart from them";
  pair.looks =
      "channel c of a value is not read at channel c of its key: a row is as "
      "long as a key, and its values are the first dv of it";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_values_in_keys_equal_own_values

extern constinit const Law values_in_keys_equal_own_values{
    "values_in_keys_equal_own_values",
    "Values that are the first channels of the keys are values as any others.",
    "forward(q, k, k[.., :dv]) = forward(q, k, copy of k[.., :dv])",
    "values in keys declared, dv <= d",
    "Attention reads numbers, and asks of none where else it stands.",
    "Each side is within its own bound of the same number; never bitwise: "
    "strides may choose the path.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    454,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_VALUES_IN_KEYS},
    of_values_in_keys_equal_own_values::constrain,
    of_values_in_keys_equal_own_values::plan,
    of_values_in_keys_equal_own_values::judge};

}  // namespace qkvet::properties
