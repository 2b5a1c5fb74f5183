// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/case/paging.h"
#include "properties/checking/serving_cases.h"

namespace qkvet::properties {
namespace of_page_size_changes_nothing {

// One page for all tokens of a member; for a kernel that lists its sizes, its
// largest one.
int64_t largest_page(const Case& value, const KernelInfo& kernel) {
  const qkvet_capabilities& can = kernel.capabilities;
  const int32_t count = std::clamp<int32_t>(can.page_size_count, 0, 16);
  if (count == 0)
    return std::clamp<int64_t>(value.shape.Tk, 1, kMostPageTokens);
  return *std::max_element(can.page_sizes, can.page_sizes + count);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging.size = largest_page(value, kernel);
  Plan plan = plan_two_forms(kernel, variant, nullptr);
  if (variant.paging.size == value.paging.size)
    plan.not_applicable = "the pages are the largest already";
  return plan;
}

// Pages that are not all of a member, so that there are larger ones.
Case constrain(Case value) {
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  value = with_pages(std::move(value));
  if (value.paging.size >= value.shape.Tk) value.paging.size = 1;
  return value;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "in small pages";
  pair.second_name = "in large pages";
  pair.looks = "slots are counted with another size than that of a page";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_page_size_changes_nothing

extern constinit const Law page_size_changes_nothing{
    "page_size_changes_nothing",
    "How many tokens a page has changes nothing.",
    "forward(pages of n tokens) = forward(pages of m tokens)",
    "keys and values in pages that are not the largest",
    "Pages of any size hold the same tokens in the same order.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another",
    460,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_PAGED},
    of_page_size_changes_nothing::constrain,
    of_page_size_changes_nothing::plan,
    of_page_size_changes_nothing::judge};

}  // namespace qkvet::properties
