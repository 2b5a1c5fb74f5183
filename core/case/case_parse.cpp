// SPDX-License-Identifier: Apache-2.0
// Reading the spelling of a Case. Every error is one line that names the
// token, what is wrong with it and what is allowed.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "core/case/case_options.h"
#include "core/case/case_set.h"
#include "core/case/case_text.h"
#include "core/case/layer_storage.h"
#include "core/case/merge.h"

namespace qkvet {
namespace {

constexpr std::string_view kAllowedCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789=,._+-:[]()";
std::string known_keys() {
  return "a dtype (f64 f32 f16 bf16 fp8e4m3 fp8e5m2 int8), B H Hkv Tq Tk d dv "
         "with a number, causal=tl|br, scale=, " +
         option_keys(/*of_backward=*/false, ", ") +
         ", q= k= v= o= kv=, data=, file=, seed=, set=, backward with do=; of "
         "a layer T D with a number, unbatched, biases=, fused=, context=, x= "
         "w= bias=, backward with dy=; of a cache cap win first rollback with "
         "a number, stored=, story=; merge with B H Tk dv, bias= and v=";
}
constexpr int64_t kVersion = 1;

class Parser {
 public:
  ParsedCase parse(std::string_view text) {
    if (text.size() > kMaxCaseText)
      return fail("a case has at most " + std::to_string(kMaxCaseText) +
                  " characters; this one has " + std::to_string(text.size()));
    const size_t odd = text.find_first_not_of(kAllowedCharacters);
    if (odd != std::string_view::npos)
      return fail("character " + std::to_string(odd + 1) +
                  " is not allowed; a case is made of A-Za-z0-9=,._+-:[]()");
    if (text.empty()) return fail("empty case; allowed: " + known_keys());
    for (bool first = true; error_.empty() && !text.empty(); first = false) {
      const size_t comma = std::min(text.find(','), text.size());
      read_token(text.substr(0, comma), first);
      const bool trailing = comma + 1 == text.size();
      text.remove_prefix(std::min(comma + 1, text.size()));
      if (error_.empty() && trailing) error_ = "a comma ends the case";
    }
    if (error_.empty()) finish();
    if (error_.empty()) error_ = invalid_reason(case_);
    if (error_.empty()) check_slope_tokens();
    if (!error_.empty()) return fail(error_);
    return {case_, ""};
  }

 private:
  static ParsedCase fail(const std::string& why) {
    return {std::nullopt, "case: " + why};
  }

  // False, with an error, if the key was there before.
  bool once(const std::string& key) {
    if (seen_.insert(key).second) return true;
    error_ = key + " is given twice";
    return false;
  }

  void read_token(std::string_view token, bool first) {
    if (token.empty()) {
      error_ = "empty token between two commas";
    } else if (first && token.find_first_not_of("0123456789") ==
                            std::string_view::npos) {
      if (number<int64_t>(token) != kVersion)
        error_ = "format version " + std::string(token) +
                 ": this program reads version 1";
    } else if (const auto dtype = dtype_from_name(token)) {
      if (once("dtype") && once("q dtype") && once("kv dtype") &&
          once("o dtype"))
        case_.q_dtype = case_.kv_dtype = case_.o_dtype = *dtype;
    } else if (token.find('=') != std::string_view::npos) {
      const size_t at = token.find('=');
      read_pair(token.substr(0, at), token.substr(at + 1), token);
    } else if (token == "causal") {
      if (once("causal")) bare_causal_ = true;
    } else if (token == "backward") {
      if (once("backward")) case_.backward = true;
    } else if (token == "merge") {
      if (once("merge")) case_.merge = true;
    } else if (token == "unbatched") {
      if (once("unbatched")) case_.unbatched = true;
    } else {
      read_extent(token);
    }
  }

  void read_extent(std::string_view token) {
    const size_t digits =
        std::min(token.find_first_of("-0123456789"), token.size());
    const std::string key(token.substr(0, digits));
    const std::pair<std::string_view, int64_t*> extents[] = {
        {"B", &case_.shape.B},
        {"H", &case_.shape.H},
        {"Hkv", &case_.shape.Hkv},
        {"Tq", &case_.shape.Tq},
        {"Tk", &case_.shape.Tk},
        {"d", &case_.shape.d},
        {"dv", &case_.shape.dv},
        {"T", &case_.shape.Tq},
        {"D", &case_.shape.D},
        {"cap", &case_.capacity},
        {"win", &case_.cache.window},
        {"first", &case_.cache.first_tokens},
        {"rollback", &case_.cache.rollback}};
    const auto* found =
        std::find_if(std::begin(extents), std::end(extents),
                     [&](const auto& extent) { return extent.first == key; });
    if (found == std::end(extents)) {
      error_ = "unknown key " + quoted(token) + "; allowed: " + known_keys();
      return;
    }
    // Only attention has empty extents; the others are refused as a whole.
    const int64_t least = key == "B" || key == "Tq" || key == "Tk" ? 0 : 1;
    const std::string allowed = "allowed " + std::to_string(least) + " .. " +
                                std::to_string(kMaxExtent);
    if (digits == token.size()) {
      error_ = key + " has no value; " + allowed;
      return;
    }
    const auto value = number<int64_t>(token.substr(digits));
    if (!value || *value < least || *value > kMaxExtent) {
      error_ = std::string(token) + ": " + allowed;
      return;
    }
    if (once(key)) *found->second = *value;
  }

  void read_pair(std::string_view key, std::string_view value,
                 std::string_view token) {
    if (value.empty()) {
      error_ = quoted(token) + " has no value after \"=\"";
    } else if (key == "q" || key == "kv" || key == "o" || key == "k" ||
               key == "v" || key == "x" || key == "w" || key == "do" ||
               key == "dy") {
      read_tensor(std::string(key), value, token);
    } else if (const CaseOption* option = find_option(key)) {
      if (once(std::string(key))) error_ = option->read(value, token, case_);
      if (key == "bias") bias_has_own_ = value.find('.') != value.npos;
    } else if (key == "biases") {
      read_biases(value, token);
    } else if (is_layer_storage_key(key)) {
      if (once(std::string(key)))
        error_ = read_layer_storage(key, value, token, case_);
    } else if (key == "stored") {
      const auto stored = stored_from_name(value);
      if (!stored)
        error_ = quoted(token) +
                 ": allowed int8token, int8channel, fp8token, fp8channel";
      else if (once("stored"))
        case_.cache.stored = *stored;
    } else if (key == "story") {
      if (!once("story")) return;
      const auto story = parse_story(value, &error_);
      if (story) case_.story = *story;
    } else if (key == "causal") {
      read_causal(value, token);
    } else if (key == "scale") {
      const auto scale = number<float>(value);
      if (!scale || !std::isfinite(*scale))
        error_ = quoted(token) + ": the scale must be a finite number";
      else if (once("scale"))
        case_.scale = *scale;
    } else if (key == "seed") {
      const auto seed = number<uint64_t>(value);
      if (!seed)
        error_ = quoted(token) + ": allowed 0 .. 18446744073709551615";
      else if (once("seed"))
        case_.seed = *seed;
    } else if (key == "file") {
      read_fingerprint(value, token);
    } else if (key == "data") {
      read_preset(value);
    } else if (key == "set") {
      read_set(value, token);
    } else {
      error_ = "unknown key " + quoted(key) + "; allowed: " + known_keys();
    }
  }

  // q=f32 is a type, q=zero a recipe.
  void read_tensor(const std::string& key, std::string_view value,
                   std::string_view token) {
    const auto dtype = dtype_from_name(value);
    if (dtype && (key == "q" || key == "kv" || key == "o")) {
      if (!once(key + " dtype")) return;
      (key == "q"    ? case_.q_dtype
       : key == "kv" ? case_.kv_dtype
                     : case_.o_dtype) = *dtype;
      return;
    }
    if (key == "kv" || key == "o") {
      error_ = quoted(token) + ": allowed after " + key +
               "=: f64 f32 f16 bf16 fp8e4m3 fp8e5m2 int8";
      return;
    }
    std::string why;
    const auto recipe = parse_recipe(value, &why);
    if (!recipe)
      error_ = why;
    else if (once(key + " recipe"))
      (key == "q"   ? case_.q
       : key == "k" ? case_.k
       : key == "v" ? case_.v
       : key == "x" ? case_.x
       : key == "w" ? case_.w
                    : case_.d_o) = *recipe;
  }

  // biases=qkvo: which ones are given.
  void read_biases(std::string_view value, std::string_view token) {
    if (!once("biases")) return;
    for (const char c : value) {
      const size_t bit = std::string_view("qkvo").find(c);
      if (bit == std::string_view::npos || (case_.biases >> bit & 1) != 0) {
        error_ = quoted(token) + ": some of the letters q k v o, each once";
        return;
      }
      case_.biases |= static_cast<uint8_t>(1 << bit);
    }
  }

  void read_causal(std::string_view value, std::string_view token) {
    if (value != "tl" && value != "br") {
      error_ = quoted(token) +
               ": allowed causal=tl (top left) or causal=br (bottom right)";
    } else if (once("causal")) {
      case_.causal = value == "tl" ? Causal::kTopLeft : Causal::kBottomRight;
    }
  }

  void read_fingerprint(std::string_view value, std::string_view token) {
    const char* end = value.data() + value.size();
    const auto [stop, code] =
        std::from_chars(value.data(), end, case_.file, /*base=*/16);
    constexpr size_t kDigits = 16;
    if (value.size() != kDigits || code != std::errc() || stop != end ||
        case_.file == 0)
      error_ = quoted(token) +
               ": 16 hexadecimal digits, as the report of the file has them";
    else
      once("file");
  }

  void use_preset(RecipeKind q, RecipeKind k, RecipeKind v) {
    if (!once("q recipe") || !once("k recipe") || !once("v recipe")) {
      error_ = "data= is q=, k= and v= together; give one or the other";
      return;
    }
    case_.q = make_recipe(q);
    case_.k = make_recipe(k);
    case_.v = make_recipe(v);
  }

  void read_preset(std::string_view value) {
    if (value == "file")
      return use_preset(RecipeKind::kFile, RecipeKind::kFile,
                        RecipeKind::kFile);
    for (const DataPreset& preset : data_presets())
      if (preset.name == value) return use_preset(preset.q, preset.k, preset.v);
    error_ = "unknown data " + quoted(value) + "; allowed:";
    for (const DataPreset& preset : data_presets())
      error_ += " " + std::string(preset.name);
    error_ += " file";
  }

  void read_set(std::string_view value, std::string_view token) {
    SetValue set;
    error_ = read_set_value(value, token, &set);
    if (!error_.empty()) return;
    case_.set.push_back(set);
    if (set.tensor == TensorName::kSlopes) slope_tokens_.push_back(token);
  }

  // Whether slopes have a member before the head is known at the end.
  void check_slope_tokens() {
    for (const std::string_view token : slope_tokens_) {
      const std::string_view index = token.substr(0, token.find(':'));
      const bool of_member = std::count(index.begin(), index.end(), '.') == 2;
      if (of_member != case_.member_slopes)
        error_ = quoted(token) + ": write " +
                 (of_member ? "set=alibi.h:HEX for slopes of all members"
                            : "set=alibi.b.h:HEX for slopes of each member");
    }
  }

  // False, with an error, if one of the keys is missing.
  bool needs(std::initializer_list<const char*> keys, const char* all) {
    for (const char* key : keys)
      if (!seen_.contains(key)) {
        error_ = std::string(key) + " is missing; " + all;
        return false;
      }
    return true;
  }
  bool excludes(const char* what, std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (seen_.contains(key)) {
        error_ = std::string(what) + " has no " + key;
        return false;
      }
    return true;
  }

  void finish() {
    const bool is_layer = seen_.contains("D") || seen_.contains("T");
    const bool is_story = seen_.contains("story") || seen_.contains("cap");
    if (is_layer && is_story)
      error_ =
          "D and T belong to a layer, cap and story= to a cache; one or "
          "the other";
    else if (case_.merge)
      finish_merge();
    else if (is_layer)
      finish_layer();
    else if (is_story)
      finish_story();
    else
      finish_attention();
    if (!error_.empty()) return;
    if (!seen_.contains("q dtype") || !seen_.contains("kv dtype") ||
        !seen_.contains("o dtype")) {
      error_ = "the dtype is missing; begin with f32, or q=..,kv=..,o=..";
      return;
    }
    if (!seen_.contains("Hkv")) case_.shape.Hkv = case_.shape.H;
    if (!seen_.contains("dv")) case_.shape.dv = case_.shape.d;
  }

  void finish_attention() {
    if (!needs({"B", "H", "Tq", "Tk", "d"},
               "a case needs a dtype and B, H, Tq, Tk, d") ||
        !excludes("a case without D and T",
                  {"unbatched", "biases", "fused", "context", "x recipe",
                   "w recipe", "dy recipe"}))
      return;
    // If Tq = Tk, both alignments agree and a bare "causal" is clear.
    if (bare_causal_ && case_.shape.Tq != case_.shape.Tk)
      error_ =
          "causal needs an alignment where Tq differs from Tk: causal=tl "
          "or causal=br";
    else if (bare_causal_)
      case_.causal = Causal::kBottomRight;
  }

  // Types and extents that are left out follow.
  void finish_merge() {
    if (!needs({"B", "H", "Tk", "dv"},
               "a merge needs a dtype, B rows, H, Tk states and dv") ||
        !excludes(
            "a merge",
            {"Hkv",       "Tq",       "d",        "D",         "T",
             "cap",       "story",    "causal",   "scale",     "backward",
             "unbatched", "biases",   "fused",    "context",   "q recipe",
             "k recipe",  "x recipe", "w recipe", "do recipe", "dy recipe"}))
      return;
    if (bias_has_own_) {
      error_ = "bias= of a merge is a recipe alone: no extents follow it";
      return;
    }
    if (seen_.contains("dtype")) {
      case_.q_dtype = case_.kv_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    }
    case_.shape.Tq = case_.shape.d = 1;
    case_.shape.Hkv = case_.shape.H;
    case_.q = case_.k = make_recipe(RecipeKind::kZero);
    if (!case_.score_bias) case_.score_bias = Recipe{};
  }

  void finish_layer() {
    if (!needs({"B", "H", "T", "D"}, "a layer needs a dtype and B, H, T, D") ||
        !excludes("a layer", {"Tq", "Tk", "q recipe", "k recipe", "v recipe",
                              "do recipe"}))
      return;
    if (bias_has_own_) {
      error_ = "bias= of a layer is a recipe alone: no extents follow it";
      return;
    }
    case_.bias = case_.score_bias.value_or(Recipe{});
    case_.score_bias.reset();
    Shape& s = case_.shape;
    s.Tk = s.Tq;
    if (seen_.contains("causal")) case_.causal = Causal::kBottomRight;
    if (seen_.contains("d")) return;
    if (s.D % s.H != 0)
      error_ = "D" + std::to_string(s.D) + ",H" + std::to_string(s.H) +
               ": D must be a multiple of H, or the head width d be given";
    else
      s.d = s.D / s.H;
  }

  void finish_story() {
    if (needs({"B", "H", "d", "cap", "story"},
              "a story needs a dtype and B, H, d, cap, story=") &&
        excludes("a story",
                 {"Tq", "Tk", "causal", "unbatched", "biases", "fused",
                  "context", "x recipe", "w recipe", "dy recipe"}))
      constrain_extents_to_story(case_);
  }

  Case case_;
  std::set<std::string> seen_;
  bool bare_causal_ = false;
  bool bias_has_own_ = false;
  std::vector<std::string_view> slope_tokens_;
  std::string error_;
};

}  // namespace

ParsedCase parse_case(std::string_view text) { return Parser().parse(text); }

}  // namespace qkvet
