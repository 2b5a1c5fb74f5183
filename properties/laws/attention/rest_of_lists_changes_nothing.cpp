// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include "core/case/key_lists.h"
#include "core/case/option_data.h"
#include "properties/calls/call_pairs.h"

namespace qkvet::properties {
namespace of_rest_of_lists_changes_nothing {

// Numbers that are no keys, and the first key.
int32_t anything(const Case& value, int64_t n) {
  constexpr auto kLeast = std::numeric_limits<int32_t>::min();
  constexpr auto kMost = std::numeric_limits<int32_t>::max();
  const std::array<int32_t, 5> numbers = {kMost, 0, kLeast, -2,
                                          static_cast<int32_t>(value.shape.Tk)};
  return numbers[(static_cast<uint64_t>(n) + value.seed) % numbers.size()];
}

void other_rest(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < list_heads(value); ++kv)
      for (int64_t i = 0; i < s.Tq; ++i) {
        const int64_t begin = list_begin(value, b, kv, i);
        for (int64_t n = list_length(value, inputs, b, i);
             n < value.listed.entries; ++n)
          inputs.key_indices[static_cast<size_t>(begin + n)] =
              anything(value, begin + n);
      }
}

Case constrain(Case value) {
  value.listed.entries = std::max<int64_t>(value.listed.entries, 2);
  value.listed.lengths = true;
  return value;
}

// Whether an entry is after a length; not checked for data from a file.
bool has_rest(const Case& value) {
  Inputs inputs;
  fill_option_data(value, inputs);
  const auto all = static_cast<int32_t>(value.listed.entries);
  return value.listed.from_file ||
         std::any_of(inputs.topk_length.begin(), inputs.topk_length.end(),
                     [all](int32_t count) { return count < all; });
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_same_rows(kernel, other_rest);
  if (!has_rest(value)) plan.not_applicable = "all entries count";
  if (!kernel.has_option(QKVET_OPTION_KEY_LIST_LENGTHS))
    plan.unsupported = "lengths of lists of keys are not declared";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "as it was";
  pair.second_name = "with other numbers behind topk_length";
  pair.looks = "entries of a list are read that do not count";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_rest_of_lists_changes_nothing

extern constinit const Law rest_of_lists_changes_nothing{
    "rest_of_lists_changes_nothing",
    "Entries of a list of keys after topk_length change nothing, even if they "
    "are no key.",
    "o[i] = f(key_indices[i, n] : n < topk_length[i])",
    "lists of keys with lengths, one of which is short of the list",
    "Entries after the length do not occur in the formula of the row.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    346,
    Domain{.free_data = false,
           .allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
           .about = QKVET_OPTION_KEY_LIST_LENGTHS},
    of_rest_of_lists_changes_nothing::constrain,
    of_rest_of_lists_changes_nothing::plan,
    of_rest_of_lists_changes_nothing::judge};

}  // namespace qkvet::properties
