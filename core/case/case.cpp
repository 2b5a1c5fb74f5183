// SPDX-License-Identifier: Apache-2.0
// The spelling of a Case: printing, and what makes a case valid. Parsing is in
// core/case/case_parse.cpp.
#include "core/case/case.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/half.h"
#include "core/case/case_options.h"
#include "core/case/case_text.h"
#include "core/case/file_data.h"
#include "core/case/layer_storage.h"
#include "core/case/merge.h"
#include "core/case/rope.h"

namespace qkvet {
namespace {

void add_extent(std::string& text, std::string_view key, int64_t value) {
  add_token(text, std::string(key) + std::to_string(value));
}

void add_recipe(std::string& text, std::string_view key, const Recipe& recipe) {
  if (recipe == Recipe{}) return;
  add_token(text, std::string(key) + "=" + recipe_text(recipe));
}

std::string hex_text(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer,
                                 std::fabs(value), std::chars_format::hex)
                       .ptr;
  return (std::signbit(value) ? "-0x" : "0x") + std::string(buffer, end);
}

// `set` of the case. Slopes that all members have have no index of a member.
std::string set_text(const SetValue& set, const Case& c) {
  std::string text = "set=";
  text += set_name(set.tensor);
  const int rank = tensor_rank(set.tensor);
  for (int i = rank - given_rank(c, set.tensor); i < rank; ++i)
    text += "." + std::to_string(set.index[static_cast<size_t>(i)]);
  return text + ":" + hex_text(set.value);
}

std::string out_of_range(std::string_view key, int64_t value,
                         int64_t least = 1) {
  return std::string(key) + std::to_string(value) + ": allowed " +
         std::to_string(least) + " .. " + std::to_string(kMaxExtent);
}

// Extents are at most 2^24 each, so four of them can overflow 64 bits. Empty
// ones count as 1, as where tensors are placed.
bool too_many(std::initializer_list<int64_t> extents) {
  int64_t n = 1;
  for (const int64_t extent : extents) {
    if (extent > kMaxElements / n) return true;
    n *= std::max<int64_t>(extent, 1);
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
  if (c.mask.kind == MaskKind::kFile ||
      (c.score_bias && c.score_bias->kind == RecipeKind::kFile))
    return "mask and bias of a story are those of positions, of which a file "
           "has none";
  if (std::string why = form_reason(c.cache); !why.empty()) return why;
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

// The gradient is that of plain attention over rows of k and v.
std::string backward_reason(const Case& c) {
  if (!c.backward)
    return c.d_o == Recipe{} ? ""
                             : "only a backward case has " +
                                   std::string(c.is_layer() ? "dy=" : "do=");
  if (c.is_layer()) return "";
  if (c.subject() != Subject::kBackward) return "a story has no backward";
  for (const CaseOption& option : case_options())
    if (!option.in_backward && option.given(c))
      return "backward has no " + std::string(option.key) +
             "=; allowed beside it: causal= scale= " +
             option_keys(/*of_backward=*/true, " ");
  return "";
}

std::string story_options_reason(const Case& c) {
  for (const CaseOption& option : case_options())
    if ((option.option & kStoryOptions) != 0)
      if (std::string why = option.reason(c); !why.empty()) return why;
  return "";
}

std::string subject_reason(const Case& c) {
  if (std::string why = backward_reason(c); !why.empty()) return why;
  if (c.subject() != Subject::kCache && c.cache != CacheForm{})
    return "only a cache has win, first, rollback and stored=";
  if (std::string why = rope_reason(c); !why.empty()) return why;
  if (std::string why = layer_storage_reason(c); !why.empty()) return why;
  if (std::string why = merge_reason(c); !why.empty()) return why;
  if (c.has_options()) return options_reason(c);
  if (const std::string_view option = first_option(c); !option.empty())
    return (c.story.empty() ? "a layer has no " : "a story has no ") +
           std::string(option);
  switch (c.subject()) {
    case Subject::kLayer:
    case Subject::kLayerBackward:
      if (!c.story.empty()) return "D and story= exclude each other";
      if (std::string why = find_option("layout")->reason(c); !why.empty())
        return why;
      return layer_reason(c);
    default:
      std::string why = story_options_reason(c);
      return why.empty() ? story_reason(c) : why;
  }
}

std::string shape_reason(const Case& c) {
  const Shape& s = c.shape;
  const int64_t least = c.has_options() ? 0 : 1;
  const struct {
    std::string_view key;
    int64_t value;
    int64_t least;
  } extents[] = {{"B", s.B, least},   {"H", s.H, 1},       {"Hkv", s.Hkv, 1},
                 {"Tq", s.Tq, least}, {"Tk", s.Tk, least}, {"d", s.d, 1},
                 {"dv", s.dv, 1}};
  for (const auto& [key, value, from] : extents)
    if (value < from || value > kMaxExtent)
      return out_of_range(key, value, from);
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

// Whether set= can reach the tensor: masks and lengths are no numbers of the
// data, and a layer's biases that are not given may be named all the same.
bool has_values(const Case& c, TensorName tensor) {
  switch (tensor) {
    case TensorName::kBias:  // that of a story has no extents
      return has_tensor(c, tensor) && c.story.empty();
    case TensorName::kDO:
    case TensorName::kDY:
    case TensorName::kSink:
    case TensorName::kSlopes:
      return has_tensor(c, tensor);
    default:
      if (c.merge) return tensor == TensorName::kV;
      return tensor <= TensorName::kBo &&
             c.is_layer() == (tensor >= TensorName::kX);
  }
}

std::string set_reason(const SetValue& set, const Case& c) {
  if (!has_values(c, set.tensor))
    return set_text(set, c) + ": the case has no " + tensor_name(set.tensor);
  const auto extents = tensor_extents(c, set.tensor);
  for (int i = 0; i < tensor_rank(set.tensor); ++i) {
    const auto at = static_cast<size_t>(i);
    if (set.index[at] < 0 || set.index[at] >= extents[at])
      return set_text(set, c) + ": index outside of " + tensor_name(set.tensor);
  }
  const Dtype dtype = storage_type(c, set.tensor);
  if (!std::isfinite(
          round_to(can_store(dtype) ? dtype : Dtype::kF32, set.value)))
    return set_text(set, c) + ": the value must be finite in the storage type";
  return "";
}

// The tokens of a layer between the extents and the data.
void add_layer(std::string& text, const Case& c) {
  if (c.unbatched) add_token(text, "unbatched");
  if (c.biases != 0) {
    std::string biases = "biases=";
    for (int i = 0; i < 4; ++i)
      if ((c.biases >> i & 1) != 0) biases += "qkvo"[i];
    add_token(text, biases);
  }
  add_layer_storage(text, c);
  add_recipe(text, "x", c.x);
  add_recipe(text, "w", c.w);
  add_recipe(text, "bias", c.bias);
}

void add_extents(std::string& text, const Case& c) {
  const Shape& s = c.shape;
  add_extent(text, "B", s.B);
  add_extent(text, "H", s.H);
  if (s.Hkv != s.H) add_extent(text, "Hkv", s.Hkv);
  if (c.merge) {
    add_extent(text, "Tk", s.Tk);
    add_extent(text, "dv", s.dv);
    return add_token(text, "merge");
  }
  bool width_follows = false;
  if (c.is_layer()) {
    add_extent(text, "T", s.Tq);
    add_extent(text, "D", s.D);
    width_follows = s.d * s.H == s.D;
  } else if (c.has_options()) {
    add_extent(text, "Tq", s.Tq);
    add_extent(text, "Tk", s.Tk);
  }
  if (!width_follows) add_extent(text, "d", s.d);
  if (s.dv != s.d) add_extent(text, "dv", s.dv);
  if (c.subject() != Subject::kCache) return;
  add_extent(text, "cap", c.capacity);
  if (c.cache != CacheForm{}) add_token(text, form_text(c.cache));
}

}  // namespace

std::string to_string(const Case& c) {
  std::string text;
  if (c.q_dtype == c.kv_dtype && c.kv_dtype == c.o_dtype) {
    add_token(text, dtype_name(c.q_dtype));
  } else {
    add_token(text, "q=" + std::string(dtype_name(c.q_dtype)));
    add_token(text, "kv=" + std::string(dtype_name(c.kv_dtype)));
    add_token(text, "o=" + std::string(dtype_name(c.o_dtype)));
  }
  add_extents(text, c);
  if (c.causal == Causal::kTopLeft) add_token(text, "causal=tl");
  // For a layer both alignments agree.
  if (c.causal == Causal::kBottomRight)
    add_token(text, c.is_layer() ? "causal" : "causal=br");
  if (c.scale) add_token(text, "scale=" + float_text(*c.scale));
  add_options(text, c);
  if (c.backward) add_token(text, "backward");
  if (!c.merge) {
    add_recipe(text, "q", c.q);
    add_recipe(text, "k", c.k);
  }
  add_recipe(text, "v", c.v);
  add_recipe(text, c.is_layer() ? "dy" : "do", c.d_o);
  add_layer(text, c);
  if (c.file != 0) add_token(text, "file=" + fingerprint_text(c.file));
  if (c.seed != kDefaultSeed) add_token(text, "seed=" + std::to_string(c.seed));
  for (const SetValue& set : c.set) add_token(text, set_text(set, c));
  if (!c.story.empty()) add_token(text, "story=" + story_text(c.story));
  return text;
}

void constrain_extents_to_story(Case& value) {
  value.shape.Tq = story_queries(value.story);
  value.shape.Tk = story_tokens(value.story);
}

std::string invalid_reason(const Case& c) {
  for (const Dtype dtype : {c.q_dtype, c.kv_dtype, c.o_dtype})
    if (static_cast<int>(dtype) >= kCaseDtypeCount)
      return std::string(dtype_name(dtype)) +
             ": no storage type of q, k, v and o";
  if (std::string reason = shape_reason(c); !reason.empty()) return reason;
  if (std::string reason = subject_reason(c); !reason.empty()) return reason;
  if (std::string reason = file_reason(c); !reason.empty()) return reason;
  if (c.scale && !std::isfinite(*c.scale))
    return "scale=" + float_text(*c.scale) + ": must be finite";
  if (c.set.size() > kMaxSetValues)
    return std::to_string(c.set.size()) + " set= values: at most " +
           std::to_string(kMaxSetValues) + " are allowed";
  for (const auto recipe : {&Case::q, &Case::k, &Case::v, &Case::d_o, &Case::x,
                            &Case::w, &Case::bias})
    if (is_of_bias_alone((c.*recipe).kind)) return of_bias_alone(c.*recipe);
  for (const SetValue& set : c.set)
    if (std::string reason = set_reason(set, c); !reason.empty()) return reason;
  return "";
}

}  // namespace qkvet
