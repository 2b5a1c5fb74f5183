// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/other_data.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_lse_counts_equal_keys {

Case constrain(Case value) {
  value.q = make_recipe(RecipeKind::kZero);
  return without_set_values(std::move(value), TensorName::kQ);
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  if (!wants_lse(kernel)) plan.unsupported = "lse is not returned";
  PlannedCall call;
  call.edit = zero_queries;
  call.want_lse = true;
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Shape& s = input.value.shape;
  const CallView& call = input.calls[0];
  const Dtype dtype = lse_dtype(input.value.o_dtype);
  const double unit = lse_unit(input.kernel);
  const std::vector<double> lse = as_doubles(call.outcome->lse, dtype);
  for (size_t n = 0; n < lse.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t keys =
        input.visibility->keys(at / s.Tq / s.H, at / s.Tq % s.H, at % s.Tq);
    if (keys == 0) continue;  // the dialect's
    auto finding =
        compare_with_bound({lse[n],
                            std::log(static_cast<double>(keys)) * unit,
                            call.truth->bound->lse[n],
                            0,
                            dtype,
                            /*before_rounding=*/false,
                            {TensorName::kLse, at, 0}},
                           judgement);
    if (!finding) continue;
    finding->where = element_name(TensorName::kLse, s, at);
    finding->looks = number_text(std::exp(lse[n] / unit), Dtype::kF32) +
                     " keys where the row sees " + std::to_string(keys);
    add_failure(judgement, std::move(*finding));
  }
  return judgement;
}

}  // namespace of_lse_counts_equal_keys

extern constinit const Law lse_counts_equal_keys{
    "lse_counts_equal_keys",
    "With equal scores lse is the logarithm of the number of keys.",
    "lse[i] = ln n(i), q = 0",
    "lse is returned; plain scores",
    "A sum of n times exp(0) is n.",
    "The sum is exact; only the logarithm rounds.",
    "(b) its bound is the logarithm's own error, (d) it needs no oracle",
    60,
    Domain{.allows = kAllowPairs | QKVET_OPTION_SOFTCAP | kAllowMemory},
    of_lse_counts_equal_keys::constrain,
    of_lse_counts_equal_keys::plan,
    of_lse_counts_equal_keys::judge};

}  // namespace qkvet::properties
