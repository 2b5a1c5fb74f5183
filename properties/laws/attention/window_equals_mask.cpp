// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_window_equals_mask {

Case constrain(Case value) {
  if (!value.window) value.window = Window{-1, 0};
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = with_own_mask(value);
  variant.window.reset();
  Plan plan = plan_two_forms(kernel, variant, write_visible_pairs);
  if (!kernel.has_option(QKVET_OPTION_MASK))
    plan.unsupported = "a mask is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "a window";
  pair.second_name = "a mask of the same pairs";
  pair.looks =
      "the window begins or ends at another key, or is counted from "
      "another diagonal";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_window_equals_mask

extern constinit const Law window_equals_mask{
    "window_equals_mask",
    "A window equals a mask: it only hides pairs.",
    "forward(window L.R) = forward(mask), mask[i,j] = D(i) - L <= j <= D(i) + "
    "R",
    "a window; the kernel takes a mask as well",
    "A window determines only which keys a row sees.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    350,
    Domain{
        .allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores | kAllowMemory,
        .about = QKVET_OPTION_WINDOW},
    of_window_equals_mask::constrain,
    of_window_equals_mask::plan,
    of_window_equals_mask::judge};

}  // namespace qkvet::properties
