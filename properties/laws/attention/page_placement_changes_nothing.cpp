// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/serving_cases.h"

namespace qkvet::properties {
namespace of_page_placement_changes_nothing {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging.order = value.paging.order == PageOrder::kInOrder
                             ? PageOrder::kReverse
                             : PageOrder::kInOrder;
  const bool bitwise =
      claims_same_bits(kernel, QKVET_FLAG_PAGE_PLACEMENT_INVARIANT);
  return plan_two_forms(kernel, variant, nullptr, /*bounds=*/!bitwise);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "where the pages lie";
  pair.second_name = "in another order";
  pair.looks = "a page is not looked up in the block table of its member";
  compare_as_claimed(input, pair, QKVET_FLAG_PAGE_PLACEMENT_INVARIANT,
                     judgement);
  return judgement;
}

}  // namespace of_page_placement_changes_nothing

extern constinit const Law page_placement_changes_nothing{
    "page_placement_changes_nothing",
    "The places of the pages in the pool change nothing.",
    "forward(pool, table) = forward(P pool, P table)   P any order of pages",
    "keys and values in pages",
    "A table names the same tokens in the same order, wherever they lie.",
    "Bit for bit where the kernel declares that placement changes nothing; "
    "else each side is within its own bound of the same number.",
    "(c) it sets one path of a kernel against another",
    450,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_PAGED},
    with_pages,
    of_page_placement_changes_nothing::plan,
    of_page_placement_changes_nothing::judge};

}  // namespace qkvet::properties
