// SPDX-License-Identifier: Apache-2.0
// Lengths and starts of members, once in int32 and once in int64.
#include <algorithm>

#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_int32_lengths_change_nothing {

// Whether a member has a row and a key: without them there is nothing to
// compare.
bool has_any(const Case& value) {
  if (!value.cu_q.empty()) return true;
  for (size_t b = 0; b < static_cast<size_t>(value.shape.B); ++b)
    if ((value.q_len.empty() || value.q_len[b] > 0) &&
        (value.kv_len.empty() || value.kv_len[b] > 0))
      return true;
  return false;
}

// If a case has no such numbers, it gets the lengths of two members: the second
// shows whether the first was read with the right width.
Case constrain(Case value) {
  if (!gives_lengths(value)) {
    Shape& s = value.shape;
    s.B = std::clamp<int64_t>(s.B, 2, static_cast<int64_t>(kMaxMembers));
    // With lists of pages there are no lengths of keys.
    const bool of_queries = value.paging.table == PageTable::kCsr;
    std::vector<int64_t>& lengths = of_queries ? value.q_len : value.kv_len;
    lengths.clear();
    for (int64_t b = 0; b < s.B; ++b)
      lengths.push_back(std::max<int64_t>((of_queries ? s.Tq : s.Tk) - b, 0));
  }
  if (!has_any(value)) {  // the fewest, so that shrinking ends
    const Shape& s = value.shape;
    if (!value.q_len.empty()) value.q_len.back() = std::min<int64_t>(1, s.Tq);
    if (!value.kv_len.empty())
      value.kv_len.back() = std::min(std::max<int64_t>(1, value.append), s.Tk);
  }
  value.int32_lengths = true;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.int32_lengths = false;
  return plan_two_forms(kernel, variant, nullptr);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "lengths in int32";
  pair.second_name = "in int64";
  pair.looks = "numbers are read in another width than they have";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_int32_lengths_change_nothing

extern constinit const Law int32_lengths_change_nothing{
    "int32_lengths_change_nothing",
    "Whether lengths and starts of members are int32 or int64 changes nothing.",
    "forward(int32 lengths) = forward(int64 lengths)",
    "lengths or starts of members, and int32 declared for them",
    "They are the same numbers.",
    "Each side is within its own bound of the same number; never bitwise.",
    "(c) it sets one path of a kernel against another",
    435,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_INT32_LENGTHS},
    of_int32_lengths_change_nothing::constrain,
    of_int32_lengths_change_nothing::plan,
    of_int32_lengths_change_nothing::judge};

}  // namespace qkvet::properties
