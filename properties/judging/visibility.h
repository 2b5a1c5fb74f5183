// SPDX-License-Identifier: Apache-2.0
// Which pairs are visible. Written once more here, independent of reference/
// and impl/, so that no two of them can share a mistake.
#ifndef QKVET_PROPERTIES_JUDGING_VISIBILITY_H_
#define QKVET_PROPERTIES_JUDGING_VISIBILITY_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/floors.h"
#include "core/case/case.h"
#include "qkvet/kernel.h"

namespace qkvet::properties {

// The pairs of query and key of a case with any options. Cost: one pass over
// all pairs if there is a mask or a list, otherwise over all rows.
class Visibility {
 public:
  // `inputs` are those of `value`; `in_window`: a window cuts ranges, too (the
  // dialect's ranges_and_window).
  Visibility(const Case& value, const Inputs& inputs, bool in_window = false);
  // Without inputs: no data is made, which costs most.
  explicit Visibility(const Case& value, bool in_window = false);

  // False for rows beyond q_len and in no packed member, which are undefined.
  bool counted(int64_t b, int64_t i) const { return row(b, i).counted; }
  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const Row& r = row(b, i);
    return r.first <= j && j < r.end && !is_masked(b, h, i, j) &&
           is_listed(b, h, i, j) && (fields_ == nullptr || shows(b, i, j));
  }
  // How many keys the row sees; 0 if it is not counted.
  int64_t keys(int64_t b, int64_t h, int64_t i) const {
    return keys_[static_cast<size_t>((b * H_ + h) * Tq_ + i)];
  }
  // The key at the diagonal of the row, counted in the tensor.
  int64_t diagonal(int64_t b, int64_t i) const { return row(b, i).diagonal; }

 private:
  // The keys that causal rule, window and lengths allow: first .. end - 1.
  struct Row {
    bool counted = false;
    int64_t first = 0, end = 0, diagonal = 0;
    int64_t member_first = 0;  // the first key of the row's member
    // With ranges, which take keys back, first .. end - 1 is the whole member,
    // and these are its keys within the causal rule and the window.
    int64_t past_end = 0, near_first = 0, near_end = 0;
    int64_t draft = 0;                       // the first key that is a draft
    int64_t range_first = 0, range_end = 0;  // where the row is in a range
  };
  const Row& row(int64_t b, int64_t i) const {
    return rows_[static_cast<size_t>(b * Tq_ + i)];
  }
  bool is_masked(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return !mask_.empty() &&
           mask_[static_cast<size_t>(((b * H_ + h) * Tq_ + i) * Tk_ + j)] == 0;
  }
  bool is_listed(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return listed_.empty() ||
           listed_[static_cast<size_t>(
               ((b * list_heads_ + h / list_group_) * Tq_ + i) * Tk_ + j)] != 0;
  }
  void mark_lists(const Case& value, const Inputs& inputs);
  // Applies masks in a few numbers.
  bool shows(int64_t b, int64_t i, int64_t j) const;
  void take_ranges_back(const Case& value, const Inputs& inputs);
  // Rows of one member: queries [q_from, q_end), keys [k_from, k_end).
  void add_member(const Case& value, int64_t b, int64_t q_from, int64_t q_end,
                  int64_t k_from, int64_t k_end);

  int64_t H_ = 0, Tq_ = 0, Tk_ = 0;
  std::vector<Row> rows_;        // [B,Tq]
  std::vector<uint8_t> mask_;    // [B,H,Tq,Tk] or empty
  std::vector<uint8_t> listed_;  // [B,list_heads_,Tq,Tk] or empty
  // Those of the masks in a few numbers; null: the case has none.
  std::shared_ptr<const Inputs> fields_;
  int64_t chunk_ = 0;
  bool ranges_ = false, in_window_ = false;
  int64_t list_heads_ = 1, list_group_ = 1;
  std::vector<int64_t> keys_;  // [B,H,Tq]
};

// The dialect's rule for ranges within a window.
inline bool ranges_in_window(const qkvet_dialect& dialect) {
  return dialect.ranges_and_window == QKVET_RANGES_IN_WINDOW;
}

// The row of the case's slopes for query i; 0 if it belongs to no member.
inline int64_t slope_row(const Case& value, int64_t b, int64_t i) {
  if (!value.member_slopes) return 0;
  const std::vector<int64_t>& starts = value.cu_q;
  if (starts.empty()) return b;
  const auto next = std::upper_bound(starts.begin(), starts.end(), i);
  return next == starts.end() ? 0 : next - starts.begin() - 1;
}

// Whether a row that counts sees no key.
bool has_row_without_key(const Case& value, const Visibility& visibility);

// Whether some row of some head sees a key, as far as the case alone shows.
bool some_row_sees_a_key(const Case& value);

// For laws that allow no option except a causal rule: a row then sees the first
// keys, and their number determines them.
inline int64_t visible_keys(const Case& value, int64_t row) {
  const Shape& s = value.shape;
  switch (value.causal) {
    case Causal::kNone:
      return s.Tk;
    case Causal::kTopLeft:
      return std::min(s.Tk, row + 1);
    case Causal::kBottomRight:
      return std::clamp<int64_t>(row + 1 + s.Tk - s.Tq, 0, s.Tk);
  }
  return s.Tk;
}

// Rows 0 .. n - 1 are those that have at least one masked key.
inline int64_t rows_with_masked_keys(const Case& value) {
  int64_t n = 0;
  while (n < value.shape.Tq && visible_keys(value, n) < value.shape.Tk) ++n;
  return n;
}

// Makes the case causal, with a masked and a visible key in some row.
inline Case with_masked_key(Case value) {
  if (value.causal == Causal::kNone) value.causal = Causal::kTopLeft;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  if (value.causal == Causal::kBottomRight)
    value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  return value;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_VISIBILITY_H_
