// SPDX-License-Identifier: Apache-2.0
// Lists of keys over pages and in rows: an entry is a position in the sequence
// of its member, wherever that is stored.
#include <algorithm>

#include "properties/checking/serving_cases.h"

namespace qkvet::properties {
namespace of_listed_pages_equal_rows {

// Appended tokens are then among the keys from the beginning.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.paging = {};
  variant.append = 0;
  Plan plan = plan_two_forms(kernel, variant, nullptr);
  if (kernel.has_flag(QKVET_FLAG_PAGES_ONLY))
    plan.unsupported = "k and v in rows are not declared";
  if (!value.cu_q.empty() && !kernel.has_option(QKVET_OPTION_PACKED))
    plan.unsupported = "packed batches in rows are not declared";
  if ((!value.kv_len.empty() || !value.q_len.empty()) &&
      !kernel.has_option(QKVET_OPTION_LENGTHS))
    plan.unsupported = "lengths are not declared";
  return plan;
}

Case constrain(Case value) {
  value = with_pages(std::move(value));
  value.listed.entries = std::max<int64_t>(value.listed.entries, 1);
  return value;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "over pages";
  pair.second_name = "in rows";
  pair.looks =
      "an entry of a list is taken for a slot of the pool, or for one of "
      "another member: it is a position in the sequence";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_listed_pages_equal_rows

extern constinit const Law listed_pages_equal_rows{
    "listed_pages_equal_rows",
    "Lists of keys name positions of a sequence: over pages they say what they "
    "say of rows.",
    "forward(pages, key_indices) = forward(k, v, key_indices)",
    "lists of keys over pages; the kernel takes rows as well",
    "The table gives the place of a key, and the list gives its number.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another, (d) it needs no oracle",
    475,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
           .about = QKVET_OPTION_KEY_LISTS},
    of_listed_pages_equal_rows::constrain,
    of_listed_pages_equal_rows::plan,
    of_listed_pages_equal_rows::judge};

}  // namespace qkvet::properties
