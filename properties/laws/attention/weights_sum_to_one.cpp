// SPDX-License-Identifier: Apache-2.0
// V = 1 turns every output into the sum of its row's weights; weights that are
// returned are summed as well. The scores' errors cancel here, so the bound is
// far tighter than agreement's: a lost or doubled key, a denominator over the
// wrong keys or a missing rescale shows at once.
#include <cmath>

#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_weights_sum_to_one {

Case constrain(Case value) {
  value.v = make_recipe(RecipeKind::kOne);
  std::erase_if(value.set, [](const SetValue& set) {
    return set.tensor == TensorName::kV;
  });
  return value;
}

void ones(const Case&, int64_t, Inputs& inputs) {
  for (double& value : inputs.v)
    if (!std::isnan(value)) value = 1;  // NaN: beyond the lengths
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  PlannedCall call;
  call.edit = ones;
  call.want_weights = wants_weights(kernel);
  call.needs_truth = true;
  plan.calls.push_back(call);
  return plan;
}

void judge_returned_weights(const JudgeInput& input, Judgement& judgement) {
  const Shape& s = input.value.shape;
  const CallView& call = input.calls[0];
  const std::vector<double> weights =
      as_doubles(call.outcome->weights, input.value.o_dtype);
  for (size_t row = 0; row * static_cast<size_t>(s.Tk) < weights.size();
       ++row) {
    if (call.truth->oracle.visible[row] <= 0) continue;
    double sum = 0;  // in double: its own error is far below the bound
    for (int64_t j = 0; j < s.Tk; ++j)
      sum += weights[row * static_cast<size_t>(s.Tk) + static_cast<size_t>(j)];
    compare_sum_with_one(s, static_cast<int64_t>(row), sum,
                         call.truth->bound->row_sum[row], judgement);
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const auto count = static_cast<size_t>(input.value.shape.o_elements());
  compare_with_known(input, input.calls[0], std::vector<double>(count, 1),
                     judgement);
  judge_returned_weights(input, judgement);
  return judgement;
}

}  // namespace of_weights_sum_to_one

extern constinit const Law weights_sum_to_one{
    "weights_sum_to_one",
    "The weights of a row sum to one: with V = 1 every output is 1.",
    "sum over j of w[i,j] = 1",
    "the row sees at least one key",
    "The softmax divides by the sum of what it divides.",
    "Scores and exponentials are the same in numerator and denominator; only "
    "the two sums and the division round.",
    "(b) the errors of the scores cancel, (d) it needs no oracle",
    30,
    Domain{.free_v = false,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_BIAS |
                     QKVET_OPTION_ALIBI | QKVET_OPTION_SOFTCAP | kAllowMemory |
                     QKVET_OPTION_KEY_LISTS | kAllowFields},
    of_weights_sum_to_one::constrain,
    of_weights_sum_to_one::plan,
    of_weights_sum_to_one::judge};

}  // namespace qkvet::properties
