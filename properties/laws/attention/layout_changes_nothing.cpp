// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_layout_changes_nothing {

Case constrain(Case value) {
  if (value.layout == Layout::kBhtd && value.share == 0)
    value.layout = Layout::kBthd;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.layout = Layout::kBhtd;
  variant.share = 0;
  return plan_two_layouts(kernel, variant, nullptr);
}

// An assumed stride is that of contiguous tensors, so those are right.
bool is_contiguous_right(const JudgeInput& input) {
  const CallView& contiguous = input.calls[1];
  if (contiguous.truth == nullptr) return true;  // bits were compared
  Judgement judgement;
  compare_with_truth(input, contiguous, TensorName::kO, judgement);
  return judgement.verdict == Verdict::kPassed;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "as they lie";
  pair.second_name = "contiguous [B,H,T,d]";
  if (is_contiguous_right(input))
    pair.looks = "a stride is assumed and not read";
  compare_as_claimed(input, pair, QKVET_FLAG_LAYOUT_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_layout_changes_nothing

extern constinit const Law layout_changes_nothing{
    "layout_changes_nothing",
    "The layout of tensors in memory changes nothing.",
    "forward(strided q, k, v) = forward(contiguous q, k, v)",
    "another layout than contiguous [B,H,T,d], or k and v that are shared",
    "Both have the same value at every index.",
    "Bit for bit where the kernel declares that the layout changes nothing, "
    "all tensors aligned alike; else each side is within its own bound of the "
    "same number.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    410,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = kOptionLayout | kOptionShare},
    of_layout_changes_nothing::constrain,
    of_layout_changes_nothing::plan,
    of_layout_changes_nothing::judge};

}  // namespace qkvet::properties
