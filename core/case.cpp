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
  for (int i = 0; i < tensor_rank(set.tensor); ++i)
    text += "." + std::to_string(set.index[static_cast<size_t>(i)]);
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

std::string too_large(const std::string& what) {
  return what + " has more than " + std::to_string(kMaxElements) +
         " elements, the most allowed";
}

std::string layer_reason(const Case& c) {
  const Shape& s = c.shape;
  if (s.D > kMaxExtent) return out_of_range("D", s.D);
  if (s.Tq != s.Tk) return "a layer has one T for queries and keys";
  if (c.unbatched && s.B != 1)
    return "B" + std::to_string(s.B) + ",unbatched: [T,D] has no batch, B is 1";
  if (c.q_dtype != c.kv_dtype || c.q_dtype != c.o_dtype)
    return "a layer has one storage type";
  const std::pair<std::string_view, bool> tensors[] = {
      {"x [B,T,D]", too_many({s.B, s.Tq, s.D})},
      {"w_q [D,H*d]", too_many({s.D, s.H, s.d})},
      {"w_o [H*dv,D]", too_many({s.H, s.dv, s.D})}};
  for (const auto& [name, bad] : tensors)
    if (bad) return too_large(std::string(name));
  return "";
}

std::string story_reason(const Case& c) {
  const Shape& s = c.shape;
  if (s.B > kMostSequences)
    return "B" + std::to_string(s.B) + ": a story has at most " +
           std::to_string(kMostSequences) + " sequences";
  if (c.capacity < 1 || c.capacity > kMostStoryTokens)
    return "cap" + std::to_string(c.capacity) + ": allowed 1 .. " +
           std::to_string(kMostStoryTokens);
  if (c.story.size() > kMostCommands)
    return "a story has at most " + std::to_string(kMostCommands) + " commands";
  if (s.Tq != story_queries(c.story) || s.Tk != story_tokens(c.story))
    return "Tq and Tk of a story follow from its commands";
  return "";
}

std::string subject_reason(const Case& c) {
  switch (c.subject()) {
    case Subject::kLayer:
      return c.story.empty() ? layer_reason(c)
                             : "D and story= exclude each other";
    case Subject::kCache:
      return story_reason(c);
    default:
      return "";
  }
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
    if (bad) return too_large(std::string(name));
  return "";
}

std::string set_reason(const SetValue& set, const Case& c) {
  const bool of_layer = set.tensor >= TensorName::kX;
  if (of_layer != (c.subject() == Subject::kLayer))
    return set_text(set) + ": the case has no " + tensor_name(set.tensor);
  const auto extents = tensor_extents(c.shape, set.tensor);
  for (int i = 0; i < tensor_rank(set.tensor); ++i) {
    const auto at = static_cast<size_t>(i);
    if (set.index[at] < 0 || set.index[at] >= extents[at])
      return set_text(set) + ": index outside of " + tensor_name(set.tensor);
  }
  const bool is_kv =
      set.tensor == TensorName::kK || set.tensor == TensorName::kV;
  const Dtype dtype = is_kv ? c.kv_dtype : c.q_dtype;
  if (!std::isfinite(
          round_to(can_store(dtype) ? dtype : Dtype::kF32, set.value)))
    return set_text(set) + ": the value must be finite in the storage type";
  return "";
}

// What stands between the extents and the data.
void add_layer(std::string& text, const Case& c) {
  if (c.unbatched) add(text, "unbatched");
  if (c.biases != 0) {
    std::string biases = "biases=";
    for (int i = 0; i < 4; ++i)
      if ((c.biases >> i & 1) != 0) biases += "qkvo"[i];
    add(text, biases);
  }
  add_recipe(text, "x", c.x);
  add_recipe(text, "w", c.w);
  add_recipe(text, "bias", c.bias);
}

void add_extents(std::string& text, const Case& c) {
  const Shape& s = c.shape;
  add_extent(text, "B", s.B);
  add_extent(text, "H", s.H);
  if (s.Hkv != s.H) add_extent(text, "Hkv", s.Hkv);
  bool width_follows = false;
  if (c.subject() == Subject::kLayer) {
    add_extent(text, "T", s.Tq);
    add_extent(text, "D", s.D);
    width_follows = s.d * s.H == s.D;
  } else if (c.subject() == Subject::kAttention) {
    add_extent(text, "Tq", s.Tq);
    add_extent(text, "Tk", s.Tk);
  }
  if (!width_follows) add_extent(text, "d", s.d);
  if (s.dv != s.d) add_extent(text, "dv", s.dv);
  if (c.subject() == Subject::kCache) add_extent(text, "cap", c.capacity);
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
  add_extents(text, c);
  if (c.causal == Causal::kTopLeft) add(text, "causal=tl");
  // For a layer both alignments agree.
  if (c.causal == Causal::kBottomRight)
    add(text, c.subject() == Subject::kLayer ? "causal" : "causal=br");
  if (c.scale) add(text, "scale=" + float_text(*c.scale));
  add_recipe(text, "q", c.q);
  add_recipe(text, "k", c.k);
  add_recipe(text, "v", c.v);
  add_layer(text, c);
  if (c.seed != kDefaultSeed) add(text, "seed=" + std::to_string(c.seed));
  for (const SetValue& set : c.set) add(text, set_text(set));
  if (!c.story.empty()) add(text, "story=" + story_text(c.story));
  return text;
}

void fit_extents_to_story(Case& value) {
  value.shape.Tq = story_queries(value.story);
  value.shape.Tk = story_tokens(value.story);
}

std::string invalid_reason(const Case& c) {
  if (std::string reason = shape_reason(c.shape); !reason.empty())
    return reason;
  if (std::string reason = subject_reason(c); !reason.empty()) return reason;
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
