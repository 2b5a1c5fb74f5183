// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_causal_equals_mask {

Plan plan(const Case& value, const KernelInfo& kernel) {
  // A window counts from the causal diagonal, so that it goes with the rule.
  Case variant = with_own_mask(value);
  variant.window.reset();
  variant.causal = Causal::kNone;
  Plan plan = plan_two_forms(kernel, variant, write_visible_pairs);
  if (!kernel.has_option(QKVET_OPTION_MASK))
    plan.unsupported = "a mask is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "the causal rule";
  pair.second_name = "a mask of the same pairs";
  pair.looks = "the causal rule and the mask do not hide the same keys";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_causal_equals_mask

extern constinit const Law causal_equals_mask{
    "causal_equals_mask",
    "The causal rule equals a mask: it only hides pairs.",
    "forward(causal) = forward(mask), mask[i,j] = j <= D(i)",
    "causal, without ALiBi; the kernel takes a mask as well",
    "The causal rule determines only which keys a row sees; ALiBi and windows "
    "count from its diagonal as well.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    380,
    Domain{.causal = true,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_BIAS |
                     QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
    with_masked_key,
    of_causal_equals_mask::plan,
    of_causal_equals_mask::judge};

}  // namespace qkvet::properties
