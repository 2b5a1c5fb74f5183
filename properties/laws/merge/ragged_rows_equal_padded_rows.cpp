// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/call_pairs.h"
#include "properties/calls/merge_calls.h"

namespace qkvet::properties {
namespace of_ragged_rows_equal_padded_rows {

Case constrain(Case value) {
  value = constrain_merge(std::move(value), 2);
  if (!value.kv_len.empty()) return value;
  Shape& s = value.shape;
  s.B = std::min<int64_t>(s.B, kMaxMembers);
  for (int64_t t = 0; t < s.B; ++t)
    value.kv_len.push_back((t + static_cast<int64_t>(value.seed % 7)) %
                           (s.Tk + 1));
  return value;
}

// Missing states of a row become empty ones.
void pad(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    for (int64_t n = counted_keys(value, t); n < s.Tk; ++n) {
      const int64_t at = place_of_state(s, t, h, n);
      inputs.bias[static_cast<size_t>(at)] = kEmptyLse;
      std::fill_n(inputs.v.begin() + at * s.dv, s.dv, 1.0);
    }
  });
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan = plan_merge_pair(value, pad, value.shape.Tk);
  plan.calls[1].variant->kv_len.clear();
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "a number of states for each row";
  pair.second_name = "rows filled up with empty states";
  pair.looks = "a row takes states of another one, or leaves some out";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_ragged_rows_equal_padded_rows

extern constinit const Law ragged_rows_equal_padded_rows{
    "ragged_rows_equal_padded_rows",
    "Fewer states in a row equal empty states instead of the missing ones.",
    "merge(states, indptr) = merge(states filled up with (1, -inf))",
    "two states of the longest row",
    "An empty state counts nothing.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets two forms of a call against each other, (d) it needs no "
    "oracle",
    80,
    Domain{.subject = Subject::kMerge, .allows = kAllowRaggedMerge},
    of_ragged_rows_equal_padded_rows::constrain,
    of_ragged_rows_equal_padded_rows::plan,
    of_ragged_rows_equal_padded_rows::judge};

}  // namespace qkvet::properties
