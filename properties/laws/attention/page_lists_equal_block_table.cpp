// SPDX-License-Identifier: Apache-2.0
// The same pages, once as a block table with lengths, once as one list with the
// number of tokens in the last page of each member.
#include "properties/checking/serving_cases.h"

namespace qkvet::properties {
namespace of_page_lists_equal_block_table {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging.table = PageTable::kBlocks;
  Plan plan = plan_two_forms(kernel, variant, nullptr);
  if (!kernel.has_option(QKVET_OPTION_PAGED))
    plan.unsupported = "block tables are not declared";
  return plan;
}

// The first call is the one with lists, which can go wrong.
Case constrain(Case value) {
  value = with_pages(std::move(value));
  value.paging.table = PageTable::kCsr;
  return value;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "pages in a list";
  pair.second_name = "in a block table";
  pair.looks = "page_indptr or last_page_len is not read as it is meant";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_page_lists_equal_block_table

extern constinit const Law page_lists_equal_block_table{
    "page_lists_equal_block_table",
    "Pages in one list, with the tokens of each last page, are those of a "
    "block "
    "table with lengths.",
    "forward(page_indptr, page_indices, last_page_len) = "
    "forward(block_table, kv_len)",
    "keys and values in pages, and both forms of table declared",
    "Both name the same tokens in the same order.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another",
    455,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_PAGED_CSR},
    of_page_lists_equal_block_table::constrain,
    of_page_lists_equal_block_table::plan,
    of_page_lists_equal_block_table::judge};

}  // namespace qkvet::properties
