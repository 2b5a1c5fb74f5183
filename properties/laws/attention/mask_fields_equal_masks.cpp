// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_mask_fields_equal_masks {

void fields_as_mask(const Case& value, int64_t argument, Inputs& inputs) {
  write_visible_pairs(value, argument, inputs);
  inputs.segments_q.clear();
  inputs.segments_k.clear();
  inputs.full_ranges.clear();
  inputs.tree_mask.clear();
}

// A mask replaces the rules that ranges are composed with. Positions that were
// counted from a diagonal are then counted from the last key.
Case constrain(Case value) {
  value = with_mask_fields(std::move(value));
  if (value.fields.ranges > 0 && value.causal == Causal::kTopLeft)
    value.slopes.reset();
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = with_own_mask(value);
  variant.fields = {};
  variant.chunk = 0;
  if (value.fields.ranges > 0) {
    variant.causal = Causal::kNone;
    variant.window.reset();
  }
  Plan plan = plan_two_forms(kernel, variant, fields_as_mask);
  plan.calls[1].argument = ranges_in_window(kernel.dialect) ? 1 : 0;
  if (!kernel.has_option(QKVET_OPTION_MASK))
    plan.unsupported = "a mask is not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "in a few numbers";
  pair.second_name = "as a mask of the same pairs";
  pair.looks =
      "a row sees other keys than segments, ranges, chunk or tree leave it";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_mask_fields_equal_masks

extern constinit const Law mask_fields_equal_masks{
    "mask_fields_equal_masks",
    "Segments, ranges, chunks and a tree of drafts equal a mask of the same "
    "pairs: they only determine what a row sees.",
    "forward(segments, full_ranges, chunk, tree_mask) = forward(mask), of the "
    "same pairs",
    "segments, ranges, a chunk or a tree; the kernel takes a mask as well",
    "Which keys a row sees is all that they say; how ranges and a window go "
    "together is the dialect's ranges_and_window.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    351,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = kAllowFields},
    of_mask_fields_equal_masks::constrain,
    of_mask_fields_equal_masks::plan,
    of_mask_fields_equal_masks::judge};

}  // namespace qkvet::properties
