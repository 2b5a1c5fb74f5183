// SPDX-License-Identifier: Apache-2.0
// The same keys, once as numbers of blocks, once one by one.
#include <algorithm>

#include "core/case/key_lists.h"
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_block_lists_equal_key_lists {

void list_keys(const Case& value, int64_t, Inputs& inputs) {
  Case expanded = value;
  expand_key_blocks(expanded, inputs);
}

Case constrain(Case value) {
  value.listed.entries = std::max<int64_t>(value.listed.entries, 1);
  value.listed.block = std::max<int64_t>(value.listed.block, 2);
  value.listed.from_file = false;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.listed.entries *= value.listed.block;
  variant.listed.block = 1;
  Plan plan = plan_two_forms(kernel, variant, list_keys);
  if (!kernel.has_option(QKVET_OPTION_KEY_LIST_BLOCKS))
    plan.unsupported = "lists of blocks of keys are not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "lists of blocks";
  pair.second_name = "lists of their keys";
  pair.looks =
      "an entry of a list of blocks is not read as the keys that it stands "
      "for: the last block has those that are there";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_block_lists_equal_key_lists

extern constinit const Law block_lists_equal_key_lists{
    "block_lists_equal_key_lists",
    "A list of blocks is the list of the keys of these blocks.",
    "forward(key_indices, key_block_size = n) = forward(key_indices'), "
    "key_indices'[n m + c] = n key_indices[m] + c, -1 where there is no such "
    "key",
    "lists of blocks of keys",
    "Both name the same keys.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    347,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
           .about = QKVET_OPTION_KEY_LIST_BLOCKS},
    of_block_lists_equal_key_lists::constrain,
    of_block_lists_equal_key_lists::plan,
    of_block_lists_equal_key_lists::judge};

}  // namespace qkvet::properties
