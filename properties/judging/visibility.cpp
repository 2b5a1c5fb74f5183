// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/visibility.h"

#include "core/case/key_lists.h"
#include "core/case/option_data.h"

namespace qkvet::properties {
namespace {

Inputs options_alone(const Case& value) {
  Inputs inputs;
  fill_hidden_keys(value, inputs);
  return inputs;
}

// The 64-bit numbers that masks in a few numbers are made of, and no others.
std::shared_ptr<const Inputs> fields_of(const Case& value,
                                        const Inputs& inputs) {
  if (value.fields == MaskFields{} && value.chunk == 0) return nullptr;
  auto fields = std::make_shared<Inputs>();
  fields->segments_q = inputs.segments_q;
  fields->segments_k = inputs.segments_k;
  fields->tree_mask = inputs.tree_mask;
  return fields;
}

}  // namespace

Visibility::Visibility(const Case& value, bool in_window)
    : Visibility(value, options_alone(value), in_window) {}

Visibility::Visibility(const Case& value, const Inputs& inputs, bool in_window)
    : H_(value.shape.H),
      Tq_(value.shape.Tq),
      Tk_(value.shape.Tk),
      rows_(static_cast<size_t>(value.shape.B * value.shape.Tq)),
      mask_(full_mask(value, inputs)),
      fields_(fields_of(value, inputs)),
      chunk_(value.chunk),
      ranges_(value.fields.ranges > 0),
      in_window_(in_window) {
  const Shape& s = value.shape;
  if (value.cu_q.empty()) {
    for (int64_t b = 0; b < s.B; ++b) {
      const auto at = static_cast<size_t>(b);
      add_member(value, b, 0, value.q_len.empty() ? s.Tq : value.q_len[at], 0,
                 value.kv_len.empty() ? s.Tk : value.kv_len[at]);
    }
  } else {
    for (size_t m = 0; m + 1 < value.cu_q.size(); ++m)
      add_member(value, 0, value.cu_q[m], value.cu_q[m + 1], value.cu_k[m],
                 value.cu_k[m + 1]);
  }
  if (ranges_) take_ranges_back(value, inputs);
  mark_lists(value, inputs);
  keys_.reserve(static_cast<size_t>(s.B * s.H * s.Tq));
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i) {
        const Row& r = row(b, i);
        int64_t n = r.end - r.first;
        const bool some =
            !mask_.empty() || !listed_.empty() || fields_ != nullptr;
        for (int64_t j = r.first; j < r.end && some; ++j)
          n -= !sees(b, h, i, j);
        keys_.push_back(n);
      }
}

void Visibility::take_ranges_back(const Case& value, const Inputs& inputs) {
  for (int64_t b = 0; b < value.shape.B; ++b)
    for (int64_t i = 0; i < Tq_; ++i) {
      Row& r = rows_[static_cast<size_t>(b * Tq_ + i)];
      if (!r.counted) continue;
      r.first = r.member_first;
      r.end = value.kv_len.empty() ? Tk_ : value.kv_len[static_cast<size_t>(b)];
      const int64_t own = b * value.fields.ranges;
      for (int64_t n = own; n < own + value.fields.ranges; ++n) {
        const int64_t from = inputs.full_ranges[static_cast<size_t>(2 * n)];
        const int64_t to = inputs.full_ranges[static_cast<size_t>(2 * n + 1)];
        if (r.diagonal < from || r.diagonal >= to) continue;
        r.range_first = from;
        r.range_end = to;
      }
    }
}

bool Visibility::shows(int64_t b, int64_t i, int64_t j) const {
  const Row& r = row(b, i);
  const auto at = static_cast<size_t>(b * Tq_ + i);
  if (ranges_) {
    const bool near = r.near_first <= j && j < r.near_end;
    const bool ranged = r.range_first <= j && j < r.range_end;
    if (!(ranged ? near || !in_window_ : near && j < r.past_end)) return false;
  }
  if (chunk_ > 0) {
    const auto chunk = [&](int64_t key) {
      return (key - (key < 0 ? chunk_ - 1 : 0)) / chunk_;
    };
    if (chunk(j - r.member_first) != chunk(r.diagonal - r.member_first))
      return false;
  }
  if (!fields_->segments_q.empty()) {
    const int64_t segment = fields_->segments_q[at];
    const auto key = static_cast<size_t>(b * Tk_ + j);
    if (segment < 0 || segment != fields_->segments_k[key]) return false;
  }
  if (fields_->tree_mask.empty() || j < r.draft) return true;
  return fields_->tree_mask[at * static_cast<size_t>(Tq_) +
                            static_cast<size_t>(j - r.draft)] != 0;
}

// Each entry that counts is a mark at its key, or at the keys of its block.
void Visibility::mark_lists(const Case& value, const Inputs& inputs) {
  if (value.listed.entries == 0) return;
  const Shape& s = value.shape;
  list_heads_ = list_heads(value);
  list_group_ = s.H / list_heads_;
  listed_.assign(static_cast<size_t>(s.B * list_heads_ * Tq_ * Tk_), 0);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < list_heads_; ++kv)
      for (int64_t i = 0; i < Tq_; ++i) {
        const int64_t begin = list_begin(value, b, kv, i);
        const int64_t end = begin + list_length(value, inputs, b, i);
        const int64_t row = (b * list_heads_ + kv) * Tq_ + i;
        for (int64_t n = begin; n < end; ++n) {
          const int64_t entry = inputs.key_indices[static_cast<size_t>(n)];
          if (entry < 0) continue;
          const int64_t first =
              this->row(b, i).member_first + entry * value.listed.block;
          const int64_t behind = std::min(first + value.listed.block, Tk_);
          for (int64_t j = first; j < behind; ++j)
            listed_[static_cast<size_t>(row * Tk_ + j)] = 1;
        }
      }
}

void Visibility::add_member(const Case& value, int64_t b, int64_t q_from,
                            int64_t q_end, int64_t k_from, int64_t k_end) {
  // The last query is at the last key, unless counted from the top.
  const bool from_top = value.causal == Causal::kTopLeft;
  const int64_t offset = from_top ? k_from - q_from : k_end - q_end;
  for (int64_t i = q_from; i < q_end; ++i) {
    Row& r = rows_[static_cast<size_t>(b * Tq_ + i)];
    r.counted = true;
    r.diagonal = i + offset;
    r.first = r.member_first = k_from;
    r.end = k_end;
    r.draft = k_end - (q_end - q_from);
    r.past_end =
        value.causal == Causal::kNone ? k_end : std::min(k_end, r.diagonal + 1);
    r.near_first = k_from;
    r.near_end = k_end;
    if (value.window && value.window->left >= 0)
      r.near_first = std::max(k_from, r.diagonal - value.window->left);
    if (value.window && value.window->right >= 0)
      r.near_end = std::min(k_end, r.diagonal + value.window->right + 1);
    if (value.causal != Causal::kNone) r.end = std::min(r.end, r.diagonal + 1);
    if (value.window) {
      const auto& [left, right] = *value.window;
      if (left >= 0) r.first = std::max(r.first, r.diagonal - left);
      if (right >= 0) r.end = std::min(r.end, r.diagonal + right + 1);
    }
    r.end = std::max(r.end, r.first);
  }
}

bool has_row_without_key(const Case& value, const Visibility& visibility) {
  const Shape& s = value.shape;
  for (int64_t n = 0; n < s.B * s.H * s.Tq; ++n) {
    const int64_t b = n / s.Tq / s.H, h = n / s.Tq % s.H, i = n % s.Tq;
    if (visibility.counted(b, i) && visibility.keys(b, h, i) == 0) return true;
  }
  return false;
}

bool some_row_sees_a_key(const Case& value) {
  const Shape& s = value.shape;
  const Visibility visibility(value);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        if (visibility.keys(b, h, i) > 0) return true;
  return false;
}

}  // namespace qkvet::properties
