// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/gradient_calls.h"
#include "properties/calls/option_forms.h"
#include "properties/judging/empty_row.h"

namespace qkvet::properties {
namespace of_gradient_masks_equal_biases {

Case constrain(Case value) {
  if (value.mask.kind == MaskKind::kNone)
    value.mask = {MaskKind::kEmptyRowN, 0, kOwnAll};
  return value;
}

// The value of a row without a key depends on why it has none.
bool says_the_same_of_all(const qkvet_dialect& dialect) {
  const EmptyRow by_mask = empty_row_of(dialect, EmptyBy::kMask);
  for (const EmptyBy by : {EmptyBy::kBias, EmptyBy::kRule, EmptyBy::kLength}) {
    const EmptyRow other = empty_row_of(dialect, by);
    if (other.o != by_mask.o || other.lse != by_mask.lse) return false;
  }
  return true;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan =
      plan_two_gradients(with_bias_for_mask(value), mask_to_infinite_bias);
  if (!kernel.has_option(QKVET_OPTION_BIAS))
    plan.unsupported = "a bias is not declared";
  if (!says_the_same_of_all(kernel.dialect))
    plan.not_applicable = "a row without a key depends on why it has none";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "a mask";
  pair.second_name = "a bias of 0 and -infinity";
  pair.looks =
      "a bias of -infinity does not hide its pair as a mask does: the "
      "difference of two infinities is NaN";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_gradient_masks_equal_biases

extern constinit const Law gradient_masks_equal_biases{
    "gradient_masks_equal_biases",
    "A mask has the gradient of a bias of -infinity at the same pairs, also in "
    "rows that see no key.",
    "backward(mask) = backward(bias), bias = mask ? 0 : -infinity",
    "a mask, and no bias; the kernel takes a bias as well",
    "exp(-infinity) is 0, and a row that hides all its keys adds nothing.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    58,
    Domain{
        .subject = Subject::kBackward,
        .allows = kAllowGradients & ~(QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP),
        .about = QKVET_OPTION_MASK},
    of_gradient_masks_equal_biases::constrain,
    of_gradient_masks_equal_biases::plan,
    of_gradient_masks_equal_biases::judge};

}  // namespace qkvet::properties
