// SPDX-License-Identifier: Apache-2.0
#include "core/case/mask_fields.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/philox.h"
#include "core/call/call.h"
#include "core/case/case_text.h"

namespace qkvet {
namespace {

constexpr std::string_view kFile = "file";

// Removes a type after a dot from the end; false if it is an unknown one.
bool read_type(std::string_view* text, bool* wide) {
  const size_t dot = std::min(text->find('.'), text->size());
  const std::string_view type =
      dot < text->size() ? text->substr(dot + 1) : std::string_view("i32");
  *text = text->substr(0, dot);
  *wide = type == "i64";
  return *wide || type == "i32";
}

// Takes "file" from the front.
bool read_file(std::string_view* text) {
  const bool from_file = text->starts_with(kFile);
  if (from_file) text->remove_prefix(kFile.size());
  return from_file;
}

std::string up_to(int64_t least, int64_t most) {
  return std::to_string(least) + " .. " + std::to_string(most);
}

// ---- Segments --------------------------------------------------------------

bool begins_segment(const Case& c, int64_t b, int64_t token) {
  const int64_t n = c.fields.tokens;
  return token == 0 ||
         (n > 0 &&
          below(random_bits(c.seed, TensorName::kSegmentsK, b, 0, 0, token),
                n) == 0);
}

// The number of the segment that begins at the token.
int64_t segment_number(const Case& c, int64_t b, int64_t token) {
  constexpr int64_t kNumbers = 8;
  constexpr int kUpper = 33;
  const uint64_t bits =
      random_bits(c.seed, TensorName::kSegmentsQ, b, 0, 0, token);
  const int64_t number = below(bits, kNumbers);
  if (number == 0) return -1 - static_cast<int64_t>(bits & 7);
  const int64_t upper =
      c.fields.wide_segments ? static_cast<int64_t>(bits & 1) << kUpper : 0;
  return (number - 1) / 2 + upper;
}

void fill_segments(const Case& c, Inputs& inputs) {
  const Shape& s = c.shape;
  for (int64_t b = 0; b < s.B; ++b) {
    const int64_t history = history_of(c, b);
    std::vector<int64_t> numbers;
    // There is a first segment, of which rows may be where there is no key.
    const int64_t tokens = std::max({s.Tk, history + s.Tq, int64_t{1}});
    for (int64_t token = 0; token < tokens; ++token)
      numbers.push_back(begins_segment(c, b, token)
                            ? segment_number(c, b, token)
                            : numbers.back());
    for (int64_t j = 0; j < s.Tk; ++j)
      inputs.segments_k.push_back(numbers[static_cast<size_t>(j)]);
    // Rows before the first token belong to the first segment.
    for (int64_t i = 0; i < s.Tq; ++i) {
      const int64_t token = std::max<int64_t>(history + i, 0);
      inputs.segments_q.push_back(numbers[static_cast<size_t>(token)]);
    }
  }
}

// ---- Ranges ----------------------------------------------------------------

// The keys of a member in as many parts as it has ranges: equal ones, or one
// that takes all but a key for each of the others.
struct PartsOfKeys {
  int64_t count = 0, keys = 0;
  int64_t longest = -1;  // its number; below 0: they are equal

  // The first key of part `part`.
  int64_t begin(int64_t part) const {
    if (longest < 0) return part * keys / count;
    return part <= longest ? part : keys - (count - part);
  }
};

void fill_ranges(const Case& c, Inputs& inputs) {
  const int64_t count = c.fields.ranges, keys = c.shape.Tk;
  for (int64_t b = 0; b < c.shape.B; ++b) {
    const auto draw = [&](int64_t r, int64_t which, int64_t n) {
      return below(random_bits(c.seed, TensorName::kFullRanges, b, 0, r, which),
                   n);
    };
    PartsOfKeys parts{count, keys};
    constexpr int64_t kOfMembers = 4;
    if (keys >= count && draw(0, 3, kOfMembers) == 0)
      parts.longest = draw(0, 4, count);
    for (int64_t r = 0; r < count; ++r) {
      // Parts in another order: each of them once.
      const int64_t part = count - 1 - r;
      const int64_t from = parts.begin(part);
      const int64_t room = parts.begin(part + 1) - from;
      constexpr int64_t kKinds = 8;
      const int64_t kind = draw(r, 2, kKinds);
      // Half of those that may be long are.
      const int64_t most =
          part == parts.longest && kind >= kKinds / 2 ? room / kKinds : room;
      int64_t begin = from + draw(r, 0, most + 1);
      int64_t end =
          from + room - draw(r, 1, std::min(most, from + room - begin) + 1);
      if (kind == 0) end = begin;
      if (kind == 1) begin = end = -1;
      if (kind == 2) begin = from, end = from + room;
      inputs.full_ranges.push_back(begin);
      inputs.full_ranges.push_back(end);
    }
  }
}

// ---- Trees -----------------------------------------------------------------

void fill_tree(const Case& c, Inputs& inputs) {
  const int64_t drafts = c.shape.Tq;
  inputs.tree_mask.assign(static_cast<size_t>(c.shape.B * drafts * drafts), 0);
  for (int64_t b = 0; b < c.shape.B; ++b)
    for (int64_t i = 0; i < drafts; ++i)
      for (int64_t n = i; n >= 0; n = parent_in_tree(c, b, n))
        inputs.tree_mask[static_cast<size_t>((b * drafts + i) * drafts + n)] =
            1;
}

}  // namespace

void copy_segments(const Case& from, Case& to) {
  to.fields.segments = from.fields.segments;
  to.fields.tokens = from.fields.tokens;
  to.fields.wide_segments = from.fields.wide_segments;
  to.fields.segments_from_file = from.fields.segments_from_file;
}

std::string read_segments(std::string_view text, std::string_view token,
                          Case& value) {
  MaskFields& f = value.fields;
  f.segments = true;
  const bool typed = read_type(&text, &f.wide_segments);
  f.segments_from_file = read_file(&text);
  const auto tokens = f.segments_from_file && text.empty()
                          ? std::optional<int64_t>(0)
                          : number<int64_t>(text);
  f.tokens = tokens.value_or(0);
  return typed && tokens && (f.segments_from_file ? f.tokens == 0 : true)
             ? ""
             : quoted(token) +
                   ": write segments=N, documents of N tokens or so, 0 for one "
                   "alone, and behind a dot i64 for numbers in 64 bits, for "
                   "example segments=4 or segments=4.i64";
}

std::string segments_text(const Case& c) {
  const MaskFields& f = c.fields;
  if (!f.segments) return "";
  return "segments=" +
         (f.segments_from_file ? std::string(kFile)
                               : std::to_string(f.tokens)) +
         (f.wide_segments ? ".i64" : "");
}

std::string segments_reason(const Case& c) {
  const MaskFields& f = c.fields;
  if (!f.segments)
    return f.tokens != 0 || f.wide_segments || f.segments_from_file
               ? "no segments have tokens or a type"
               : "";
  return f.tokens < 0 || f.tokens > kMaxExtent
             ? segments_text(c) + ": allowed " + up_to(0, kMaxExtent)
             : "";
}

void copy_ranges(const Case& from, Case& to) {
  to.fields.ranges = from.fields.ranges;
  to.fields.wide_ranges = from.fields.wide_ranges;
  to.fields.ranges_from_file = from.fields.ranges_from_file;
}

std::string read_ranges(std::string_view text, std::string_view token,
                        Case& value) {
  MaskFields& f = value.fields;
  const bool typed = read_type(&text, &f.wide_ranges);
  f.ranges_from_file = read_file(&text);
  const auto ranges = number<int64_t>(text);
  f.ranges = ranges.value_or(0);
  return typed && f.ranges > 0
             ? ""
             : quoted(token) +
                   ": write ranges=N, N ranges of each member, and behind a "
                   "dot "
                   "i64 for numbers in 64 bits, for example ranges=3 or "
                   "ranges=3.i64";
}

std::string ranges_text(const Case& c) {
  const MaskFields& f = c.fields;
  if (f.ranges == 0) return "";
  return "ranges=" + std::string(f.ranges_from_file ? kFile : "") +
         std::to_string(f.ranges) + (f.wide_ranges ? ".i64" : "");
}

std::string ranges_reason(const Case& c) {
  const MaskFields& f = c.fields;
  if (f.ranges == 0)
    return f.wide_ranges || f.ranges_from_file ? "no ranges have a type" : "";
  return f.ranges < 0 || f.ranges > kMostRanges
             ? ranges_text(c) + ": allowed " + up_to(1, kMostRanges)
             : "";
}

void copy_tree(const Case& from, Case& to) {
  to.fields.tree = from.fields.tree;
  to.fields.children = from.fields.children;
  to.fields.tree_from_file = from.fields.tree_from_file;
}

std::string read_tree(std::string_view text, std::string_view token,
                      Case& value) {
  MaskFields& f = value.fields;
  f.tree = true;
  f.tree_from_file = text == kFile;
  const auto children =
      f.tree_from_file ? std::optional<int64_t>(0) : number<int64_t>(text);
  f.children = children.value_or(0);
  return children ? ""
                  : quoted(token) +
                        ": write tree=N, N children of each draft, 0 for any, "
                        "for example tree=2";
}

std::string tree_text(const Case& c) {
  if (!c.fields.tree) return "";
  return "tree=" + (c.fields.tree_from_file
                        ? std::string(kFile)
                        : std::to_string(c.fields.children));
}

std::string tree_reason(const Case& c) {
  const MaskFields& f = c.fields;
  if (!f.tree)
    return f.children != 0 || f.tree_from_file ? "no tree has children" : "";
  if (f.children < 0 || f.children > kMaxExtent)
    return tree_text(c) + ": allowed " + up_to(0, kMaxExtent);
  const int64_t drafts = std::max<int64_t>(c.shape.Tq, 1);
  return std::max<int64_t>(c.shape.B, 1) > kMaxElements / drafts / drafts
             ? tree_text(c) + ": the tree has more than " +
                   std::to_string(kMaxElements) +
                   " pairs of drafts, the most allowed"
             : "";
}

int64_t history_of(const Case& c, int64_t b) {
  const auto at = static_cast<size_t>(b);
  const auto& s = c.shape;
  // Members have no length yet while a case is being made.
  return (at < c.kv_len.size() ? c.kv_len[at] : s.Tk) -
         (at < c.q_len.size() ? c.q_len[at] : s.Tq);
}

int64_t parent_in_tree(const Case& c, int64_t b, int64_t n) {
  const int64_t children = c.fields.children;
  if (children > 0) return n == 0 ? -1 : (n - 1) / children;
  return below(random_bits(c.seed, TensorName::kTreeMask, b, 0, 0, n), n + 1) -
         1;
}

void fill_mask_fields(const Case& c, Inputs& inputs) {
  if (c.fields.segments) fill_segments(c, inputs);
  if (c.fields.ranges > 0) fill_ranges(c, inputs);
  if (c.fields.tree) fill_tree(c, inputs);
}

}  // namespace qkvet
