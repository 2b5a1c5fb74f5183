// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/field_facts.h"

#include <algorithm>

namespace qkvet::properties {
namespace {

// One row, with the numbers of its member.
struct RowOfMember {
  const Case& value;
  const Inputs& inputs;
  int64_t b = 0, i = 0;
  int64_t rows = 0, keys = 0;  // that count

  int64_t position() const {
    return value.causal == Causal::kTopLeft ? i : i + keys - rows;
  }
  // Whether causal rule and window show it the key.
  bool reaches(int64_t j) const {
    const Window window = value.window.value_or(Window{});
    const int64_t at = position();
    return (value.causal == Causal::kNone || j <= at) &&
           (window.left < 0 || at - j <= window.left) &&
           (window.right < 0 || j - at <= window.right);
  }
};

void look_at_segments(const RowOfMember& row, FieldFacts& facts) {
  const Shape& s = row.value.shape;
  const int64_t own =
      row.inputs.segments_q[static_cast<size_t>(row.b * s.Tq + row.i)];
  facts.padding = own < 0;
  if (facts.padding) return;
  uint64_t borders = 0;
  bool was_own = false;
  for (int64_t j = 0; j < row.keys; ++j) {
    const int64_t number =
        row.inputs.segments_k[static_cast<size_t>(row.b * s.Tk + j)];
    const bool is_own = number == own;
    if (row.reaches(j)) {
      facts.alike += !is_own && static_cast<uint32_t>(number) ==
                                    static_cast<uint32_t>(own);
      if (j > 0 && is_own != was_own) borders |= static_cast<uint64_t>(j);
    }
    was_own = is_own;
  }
  facts.border = static_cast<int64_t>(borders & (~borders + 1));
}

void look_at_ranges(const RowOfMember& row, FieldFacts& facts) {
  const int64_t count = row.value.fields.ranges, at = row.position();
  for (int64_t r = row.b * count; r < (row.b + 1) * count; ++r) {
    const auto n = static_cast<size_t>(2 * r);
    const int64_t begin = row.inputs.full_ranges[n];
    const int64_t end = row.inputs.full_ranges[n + 1];
    if (at < begin || at >= end) continue;
    for (int64_t j = std::max<int64_t>(begin, 0); j < std::min(end, row.keys);
         ++j)
      facts.taken_back += !row.reaches(j);
  }
}

void look_at_tree(const RowOfMember& row, FieldFacts& facts) {
  const int64_t drafts = row.value.shape.Tq, history = row.keys - row.rows;
  const uint8_t* tree =
      row.inputs.tree_mask.data() + (row.b * drafts + row.i) * drafts;
  for (int64_t n = std::max<int64_t>(-history, 0); n < row.i; ++n)
    facts.aside += tree[n] == 0 && row.reaches(history + n);
}

}  // namespace

std::vector<FieldFacts> field_facts(const Case& value, const Inputs& inputs) {
  std::vector<FieldFacts> all;
  if (value.fields == MaskFields{}) return all;
  const Shape& s = value.shape;
  all.resize(static_cast<size_t>(s.B * s.Tq));
  for (int64_t b = 0; b < s.B; ++b) {
    const int64_t rows = counted_queries(value, b);
    const int64_t keys = counted_keys(value, b);
    for (int64_t i = 0; i < rows; ++i) {
      const RowOfMember row = {value, inputs, b, i, rows, keys};
      FieldFacts& facts = all[static_cast<size_t>(b * s.Tq + i)];
      if (!inputs.segments_q.empty()) look_at_segments(row, facts);
      if (!inputs.full_ranges.empty()) look_at_ranges(row, facts);
      if (!inputs.tree_mask.empty()) look_at_tree(row, facts);
    }
  }
  return all;
}

}  // namespace qkvet::properties
