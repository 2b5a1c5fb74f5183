// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_broadcast_equals_materialised {

// One for all members and heads, as masks and biases are mostly given.
constexpr uint8_t kOwnPairs = kOwnQ | kOwnK;

Case constrain(Case value) {
  const bool has_mask = value.mask.kind != MaskKind::kNone;
  if (has_mask && value.mask.own != kOwnAll) return value;
  if (value.score_bias && value.score_bias_own != kOwnAll) return value;
  if (has_mask)
    value.mask.own = kOwnPairs;
  else if (value.score_bias)
    value.score_bias_own = kOwnPairs;
  else
    value.mask = {MaskKind::kButN, 0, kOwnPairs};
  return value;
}

void write_out(const Case& value, int64_t, Inputs& inputs) {
  inputs.mask = full_mask(value, inputs);
  inputs.bias = full_bias(value, inputs);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.mask.own = kOwnAll;
  variant.score_bias_own = kOwnAll;
  return plan_two_layouts(kernel, variant, write_out);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "broadcast";
  pair.second_name = "written out";
  pair.looks = "a stride of 0 is not followed";
  compare_as_claimed(input, pair, QKVET_FLAG_LAYOUT_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_broadcast_equals_materialised

extern constinit const Law broadcast_equals_materialised{
    "broadcast_equals_materialised",
    "A mask or a bias that is broadcast equals the same written out.",
    "forward(mask, strides of 0) = forward(mask [B,H,Tq,Tk]), the same for a "
    "bias",
    "a mask or a bias with extents that are broadcast",
    "Both have the same value at every pair.",
    "Bit for bit where the kernel declares that the layout changes nothing, "
    "all tensors aligned alike; else each side is within its own bound of the "
    "same number.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    400,
    Domain{.allows = kAllowAll, .about = QKVET_OPTION_MASK | QKVET_OPTION_BIAS},
    of_broadcast_equals_materialised::constrain,
    of_broadcast_equals_materialised::plan,
    of_broadcast_equals_materialised::judge};

}  // namespace qkvet::properties
