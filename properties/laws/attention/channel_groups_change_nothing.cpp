// SPDX-License-Identifier: Apache-2.0
// The same pages, once with keys in groups of channels and values channel by
// channel, once with keys and values in rows.
#include "properties/cases/scope.h"
#include "properties/checking/serving_cases.h"

namespace qkvet::properties {
namespace of_channel_groups_change_nothing {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging.pool = PageForm::kRows;
  Plan plan = plan_two_forms(kernel, variant, nullptr);
  if (kernel.has_flag(QKVET_FLAG_CHANNEL_GROUPS_ONLY))
    plan.unsupported = "pages of rows are not declared";
  return plan;
}

// The first call is the one with groups, which can go wrong.
Case constrain(Case value) {
  value = with_pages(std::move(value));
  in_channel_groups(value);
  return value;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "keys in groups of channels";
  pair.second_name = "in rows";
  pair.looks =
      "channel c of slot j is not read at c % x of group c / x: x is 16 bytes "
      "of the keys' type, and the slots of a page lie between two groups";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_channel_groups_change_nothing

extern constinit const Law channel_groups_change_nothing{
    "channel_groups_change_nothing",
    "Pages of keys in groups of channels hold what pages of rows hold.",
    "forward(k [pages, Hkv, d / x, page, x], v [pages, Hkv, dv, page]) = "
    "forward(k [pages, Hkv, page, d], v [pages, Hkv, page, dv])",
    "keys and values in pages, and both forms of page declared",
    "A key has the same channels, wherever each of them lies.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another",
    452,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_PAGED_CHANNEL_GROUPS},
    of_channel_groups_change_nothing::constrain,
    of_channel_groups_change_nothing::plan,
    of_channel_groups_change_nothing::judge};

}  // namespace qkvet::properties
