// SPDX-License-Identifier: Apache-2.0
// The spelling of a Case: printing, and what makes a case valid. Parsing is in
// core/case_parse.cpp.
#include "core/case.h"

#include <charconv>
#include <cmath>

#include "core/half.h"

namespace qkvet {
namespace {

void add(std::string& text, std::string_view token) {
  if (!text.empty()) text += ',';
  text += token;
}

void add_extent(std::string& text, std::string_view key, int64_t value) {
  add(text, std::string(key) + std::to_string(value));
}

void add_recipe(std::string& text, std::string_view key, const Recipe& recipe) {
  if (recipe == Recipe{}) return;
  add(text, std::string(key) + "=" + recipe_text(recipe));
}

// The shortest decimal that reads back as the same float.
std::string float_text(float value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string hex_text(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer,
                                 std::fabs(value), std::chars_format::hex)
                       .ptr;
  return (std::signbit(value) ? "-0x" : "0x") + std::string(buffer, end);
}

std::string set_text(const SetValue& set) {
  std::string text = "set=";
  text += tensor_name(set.tensor);
  for (const int64_t i : set.index) text += "." + std::to_string(i);
  return text + ":" + hex_text(set.value);
}

std::string out_of_range(std::string_view key, int64_t value) {
  return std::string(key) + std::to_string(value) + ": allowed 1 .. " +
         std::to_string(kMaxExtent);
}

// Extents are at most 2^24 each, so four of them can overflow 64 bits.
bool too_many(std::initializer_list<int64_t> extents) {
  int64_t n = 1;
  for (const int64_t extent : extents) {
    if (extent > kMaxElements / n) return true;
    n *= extent;
  }
  return false;
}

std::string shape_reason(const Shape& s) {
  const std::pair<std::string_view, int64_t> extents[] = {
      {"B", s.B},   {"H", s.H}, {"Hkv", s.Hkv}, {"Tq", s.Tq},
      {"Tk", s.Tk}, {"d", s.d}, {"dv", s.dv}};
  for (const auto& [key, value] : extents)
    if (value < 1 || value > kMaxExtent) return out_of_range(key, value);
  if (s.H % s.Hkv != 0)
    return "H" + std::to_string(s.H) + ",Hkv" + std::to_string(s.Hkv) +
           ": H must be a multiple of Hkv";
  const std::pair<std::string_view, bool> tensors[] = {
      {"q [B,H,Tq,d]", too_many({s.B, s.H, s.Tq, s.d})},
      {"k [B,Hkv,Tk,d]", too_many({s.B, s.Hkv, s.Tk, s.d})},
      {"v [B,Hkv,Tk,dv]", too_many({s.B, s.Hkv, s.Tk, s.dv})},
      {"o [B,H,Tq,dv]", too_many({s.B, s.H, s.Tq, s.dv})},
      {"the score matrix [B,H,Tq,Tk]", too_many({s.B, s.H, s.Tq, s.Tk})}};
  for (const auto& [name, bad] : tensors)
    if (bad)
      return std::string(name) + " has more than " +
             std::to_string(kMaxElements) + " elements, the most allowed";
  return "";
}

std::string set_reason(const SetValue& set, const Case& c) {
  const Shape& s = c.shape;
  const bool is_q = set.tensor == TensorName::kQ;
  const int64_t width = set.tensor == TensorName::kV ? s.dv : s.d;
  const std::array<int64_t, 4> extents = {s.B, is_q ? s.H : s.Hkv,
                                          is_q ? s.Tq : s.Tk, width};
  for (size_t i = 0; i < 4; ++i)
    if (set.index[i] < 0 || set.index[i] >= extents[i])
      return set_text(set) + ": index outside of " + tensor_name(set.tensor);
  const Dtype dtype = is_q ? c.q_dtype : c.kv_dtype;
  if (!std::isfinite(
          round_to(can_store(dtype) ? dtype : Dtype::kF32, set.value)))
    return set_text(set) + ": the value must be finite in the storage type";
  return "";
}

}  // namespace

std::string to_string(const Case& c) {
  std::string text;
  if (c.q_dtype == c.kv_dtype && c.kv_dtype == c.o_dtype) {
    add(text, dtype_name(c.q_dtype));
  } else {
    add(text, "q=" + std::string(dtype_name(c.q_dtype)));
    add(text, "kv=" + std::string(dtype_name(c.kv_dtype)));
    add(text, "o=" + std::string(dtype_name(c.o_dtype)));
  }
  const Shape& s = c.shape;
  add_extent(text, "B", s.B);
  add_extent(text, "H", s.H);
  if (s.Hkv != s.H) add_extent(text, "Hkv", s.Hkv);
  add_extent(text, "Tq", s.Tq);
  add_extent(text, "Tk", s.Tk);
  add_extent(text, "d", s.d);
  if (s.dv != s.d) add_extent(text, "dv", s.dv);
  if (c.causal == Causal::kTopLeft) add(text, "causal=tl");
  if (c.causal == Causal::kBottomRight) add(text, "causal=br");
  if (c.scale) add(text, "scale=" + float_text(*c.scale));
  add_recipe(text, "q", c.q);
  add_recipe(text, "k", c.k);
  add_recipe(text, "v", c.v);
  if (c.seed != kDefaultSeed) add(text, "seed=" + std::to_string(c.seed));
  for (const SetValue& set : c.set) add(text, set_text(set));
  return text;
}

std::string invalid_reason(const Case& c) {
  if (std::string reason = shape_reason(c.shape); !reason.empty())
    return reason;
  if (c.scale && !std::isfinite(*c.scale))
    return "scale=" + float_text(*c.scale) + ": must be finite";
  if (c.set.size() > kMaxSetValues)
    return std::to_string(c.set.size()) + " set= values: at most " +
           std::to_string(kMaxSetValues) + " are allowed";
  for (const SetValue& set : c.set)
    if (std::string reason = set_reason(set, c); !reason.empty()) return reason;
  return "";
}

}  // namespace qkvet
