// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/case/key_lists.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_full_lists_equal_dense {

// Keys, or blocks of them.
int64_t entries_of_all(const Case& value) {
  return (value.shape.Tk + value.listed.block - 1) / value.listed.block;
}

// All keys from one on that hangs on the row, and -1 behind them.
void list_all(const Case& value, int64_t, Inputs& inputs) {
  const int64_t entries = value.listed.entries;
  const int64_t all = entries_of_all(value);
  int64_t row = pick_by_seed(value.seed, 1024);
  for (size_t at = 0; at < inputs.key_indices.size(); ++row)
    for (int64_t n = 0; n < entries; ++n)
      inputs.key_indices[at++] =
          n < all ? static_cast<int32_t>((row + n) % all) : -1;
}

void list_nothing(const Case&, int64_t, Inputs& inputs) {
  inputs.key_indices.clear();
  inputs.topk_length.clear();
}

Case constrain(Case value) {
  value.listed.entries =
      std::max({value.listed.entries, entries_of_all(value), int64_t{1}});
  value.listed.lengths = value.listed.from_file = false;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.listed = {};
  Plan plan = plan_two_forms(kernel, variant, list_nothing);
  plan.calls[0].edit = list_all;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "with all keys listed";
  pair.second_name = "without lists";
  pair.looks =
      "a listed key is lost, or one that is not there is counted: where there "
      "are more entries than keys, these are -1";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_full_lists_equal_dense

extern constinit const Law full_lists_equal_dense{
    "full_lists_equal_dense",
    "Lists of all keys, in any order and with -1 behind them, are no lists.",
    "forward(key_indices = all keys) = forward()",
    "lists of keys, of as many entries as there are keys or more",
    "Each key is in the list once, and -1 is no key.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets the sparse path of a kernel against its dense one, (d) it "
    "needs no oracle",
    344,
    Domain{.free_data = false,
           .allows = kAllowAll | kAllowKeyLists,
           .about = kAllowKeyLists},
    of_full_lists_equal_dense::constrain,
    of_full_lists_equal_dense::plan,
    of_full_lists_equal_dense::judge};

}  // namespace qkvet::properties
