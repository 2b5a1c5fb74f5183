// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>

#include "properties/calls/call_pairs.h"
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_rest_of_mask_fields_changes_nothing {

using Numbers = std::vector<int64_t>;

// Other names for the same segments, and other numbers below 0, in another
// order; in 64 bits they only differ in the upper half.
void rename_segments(const Case& value, Inputs& inputs) {
  std::map<int64_t, int64_t> names;
  for (const Numbers* numbers : {&inputs.segments_q, &inputs.segments_k})
    for (const int64_t number : *numbers) names[number] = 0;
  constexpr int kUpper = 32;
  int64_t next = static_cast<int64_t>(names.size());
  for (auto& [number, name] : names) {
    --next;
    name = number < 0                   ? number - 1 - next
           : value.fields.wide_segments ? next << kUpper
                                        : next;
  }
  for (Numbers* numbers : {&inputs.segments_q, &inputs.segments_k})
    for (int64_t& number : *numbers) number = names[number];
}

// Beyond the lengths: the number of the first key, which is a segment.
void write_rest(const std::vector<int64_t>& lengths, int64_t extent,
                int64_t number, Numbers& numbers) {
  for (size_t b = 0; b < lengths.size(); ++b)
    for (int64_t n = lengths[b]; n < extent; ++n)
      numbers[b * static_cast<size_t>(extent) + static_cast<size_t>(n)] =
          number;
}

// Ranges in the opposite order, empty ones of any kind.
void turn_ranges(const Case& value, Inputs& inputs) {
  const int64_t empty[][2] = {
      {0, 0}, {value.shape.Tk, 0}, {std::numeric_limits<int32_t>::max(), -1}};
  const auto count = static_cast<size_t>(value.fields.ranges);
  const Numbers as_it_was = inputs.full_ranges;
  for (size_t at = 0; at < as_it_was.size() / 2; ++at) {
    const size_t from = at / count * count + (count - 1 - at % count);
    int64_t begin = as_it_was[2 * from], end = as_it_was[2 * from + 1];
    if (end <= begin) {
      const auto& other = empty[(at + value.seed) % 3];
      begin = other[0], end = other[1];
    }
    inputs.full_ranges[2 * at] = begin;
    inputs.full_ranges[2 * at + 1] = end;
  }
}

// Beyond the drafts of a member: the opposite.
void turn_rest_of_tree(const Case& value, Inputs& inputs) {
  const auto drafts = static_cast<size_t>(value.shape.Tq);
  for (size_t at = 0; at < inputs.tree_mask.size(); ++at) {
    const auto b = at / drafts / drafts, i = at / drafts % drafts;
    const auto counted =
        value.q_len.empty() ? drafts : static_cast<size_t>(value.q_len[b]);
    if (std::max(i, at % drafts) >= counted) inputs.tree_mask[at] ^= 1;
  }
}

void other_rest(const Case& value, int64_t, Inputs& inputs) {
  if (value.fields.segments) {
    rename_segments(value, inputs);
    const int64_t first =
        inputs.segments_k.empty() ? 0 : inputs.segments_k.front();
    write_rest(value.q_len, value.shape.Tq, first, inputs.segments_q);
    write_rest(value.kv_len, value.shape.Tk, first, inputs.segments_k);
  }
  if (value.fields.ranges > 0) turn_ranges(value, inputs);
  if (value.fields.tree) turn_rest_of_tree(value, inputs);
}

// A tree in which all drafts count is uninformative here, but a kernel may take
// only trees.
Case constrain(Case value) {
  const MaskFields& f = value.fields;
  constexpr uint64_t kTrees = 4;
  const bool is_of_tree =
      f.tree && (!value.q_len.empty() || value.seed % kTrees == 0);
  if (!f.segments && f.ranges == 0 && !is_of_tree) {
    value.fields = {};
    value.fields.ranges = 2;
    value.chunk = 0;
  }
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_same_rows(kernel, other_rest);
  const MaskFields& f = value.fields;
  if (!f.segments && f.ranges == 0 && value.q_len.empty())
    plan.not_applicable = "all of the tree counts";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "as it was";
  pair.second_name = "with other names of segments and another rest";
  pair.looks =
      "numbers of segments are more than names, or an empty range or what lies "
      "beyond the lengths is read";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_rest_of_mask_fields_changes_nothing

extern constinit const Law rest_of_mask_fields_changes_nothing{
    "rest_of_mask_fields_changes_nothing",
    "Numbers of segments are names, the order of ranges does not matter, and "
    "empty ranges and entries beyond the lengths have no effect.",
    "forward(segments) = forward(renamed segments), and so on",
    "segments, ranges or a tree",
    "A row sees keys of an equal number and of its own range; a position "
    "without a row or key occurs in no formula.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    355,
    Domain{.free_data = false,
           .allows = (kAllowAll & ~QKVET_OPTION_PACKED) | kAllowFields,
           .about = QKVET_OPTION_SEGMENTS | QKVET_OPTION_FULL_RANGES |
                    QKVET_OPTION_TREE_MASK},
    of_rest_of_mask_fields_changes_nothing::constrain,
    of_rest_of_mask_fields_changes_nothing::plan,
    of_rest_of_mask_fields_changes_nothing::judge};

}  // namespace qkvet::properties
