// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a declaration in conventions.md: fields, and the words of
// their values.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <vector>

#include "core/capability/declaration.h"
#include "core/capability/extents.h"
#include "core/capability/kernel_info.h"
#include "core/capability/option_table.h"
#include "core/capability/paths.h"
#include "properties/conventions/conventions.h"

namespace qkvet::properties {
namespace {

struct BitWord {
  std::string_view word;
  uint64_t bit;
};

// The words are the names in lower case.
constexpr BitWord kLayoutBits[] = {{"bhtd", QKVET_LAYOUT_BHTD},
                                   {"bthd", QKVET_LAYOUT_BTHD},
                                   {"packed_qkv", QKVET_LAYOUT_PACKED_QKV},
                                   {"any_strides", QKVET_LAYOUT_ANY_STRIDES}};
constexpr BitWord kLayer[] = {{"biases", QKVET_LAYER_BIASES},
                              {"stages", QKVET_LAYER_STAGES},
                              {"unbatched", QKVET_LAYER_UNBATCHED},
                              {"rope", QKVET_LAYER_ROPE},
                              {"rope_part", QKVET_LAYER_ROPE_PART},
                              {"fused_qkv", QKVET_LAYER_FUSED_QKV},
                              {"fused_qvk", QKVET_LAYER_FUSED_QVK},
                              {"fused_kqv", QKVET_LAYER_FUSED_KQV},
                              {"fused_kvq", QKVET_LAYER_FUSED_KVQ},
                              {"fused_vqk", QKVET_LAYER_FUSED_VQK},
                              {"fused_vkq", QKVET_LAYER_FUSED_VKQ},
                              {"mask_buffer", QKVET_LAYER_MASK_BUFFER},
                              {"weights", QKVET_LAYER_WEIGHTS}};

std::span<const BitWord> flag_words() {
  static const std::vector<BitWord> words = [] {
    std::vector<BitWord> all;
    for (const FlagWord& row : kFlagWords) all.push_back({row.word, row.flag});
    return all;
  }();
  return words;
}

std::span<const BitWord> option_words() {
  static const std::vector<BitWord> words = [] {
    std::vector<BitWord> all;
    for (const OptionRow& row : option_rows())
      all.push_back({row.word, row.option});
    return all;
  }();
  return words;
}

std::span<const BitWord> words_of(BitKind kind) {
  switch (kind) {
    case BitKind::kFlag:
      return flag_words();
    case BitKind::kLayout:
      return kLayoutBits;
    case BitKind::kLayer:
      return kLayer;
    default:
      return option_words();
  }
}

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (space > 0) words.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return words;
}

// The words of a list of any rows that have one.
template <class Rows>
std::string allowed(const Rows& rows) {
  std::string text = "allowed:";
  for (const auto& row : rows) text += " " + std::string(row.word);
  return text;
}

// Each word may be used once.
std::string read_bits(BitKind kind, std::string_view text, uint64_t* bits) {
  *bits = 0;
  for (const std::string_view word : split(text)) {
    const auto words = words_of(kind);
    const auto found = std::find_if(words.begin(), words.end(), [&](auto& row) {
      return row.word == word;
    });
    if (found == words.end()) return quoted(word) + ": " + allowed(words);
    if ((*bits & found->bit) != 0) return quoted(word) + " is given twice";
    *bits |= found->bit;
  }
  return "";
}

template <class Value>
struct ValueWord {
  std::string_view word;
  Value value;
};
constexpr ValueWord<bool> kFusedWords[] = {{"none", false}, {"qkv", true}};
constexpr ValueWord<WeightOrder> kWeights[] = {{"in_out", WeightOrder::kInOut},
                                               {"out_in", WeightOrder::kOutIn}};
constexpr ValueWord<LayerMask> kMasks[] = {{"flag", LayerMask::kFlag},
                                           {"buffer", LayerMask::kBuffer},
                                           {"argument", LayerMask::kArgument}};
constexpr ValueWord<PageAxes> kAxes[] = {{"nhd", PageAxes::kTokensFirst},
                                         {"hnd", PageAxes::kHeadsFirst},
                                         {"x", PageAxes::kChannelGroups}};
constexpr ValueWord<PagePool> kPools[] = {{"apart", PagePool::kApart},
                                          {"halves", PagePool::kHalves},
                                          {"pairs", PagePool::kPairs}};
constexpr ValueWord<RopeStyle> kRopes[] = {
    {"half", RopeStyle::kHalf}, {"interleaved", RopeStyle::kInterleaved}};

template <class Value, size_t N>
std::string read_word(std::string_view text, const ValueWord<Value> (&words)[N],
                      Value* value) {
  for (const auto& row : words) {
    if (row.word != text) continue;
    *value = row.value;
    return "";
  }
  return quoted(text) + ": " + allowed(words);
}

std::string read_ropes(std::string_view text, std::vector<RopeStyle>* styles) {
  styles->clear();
  for (const std::string_view word : split(text)) {
    RopeStyle style{};
    if (std::string why = read_word(word, kRopes, &style); !why.empty())
      return why;
    styles->push_back(style);
  }
  return "";
}

std::optional<int64_t> positive(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end || value < 1) return std::nullopt;
  return value;
}

// "min 8 max 256 multiple 8", any of the three.
std::string read_extent(std::string_view text, qkvet_extent_rule* rule) {
  *rule = {};
  const auto words = split(text);
  for (size_t i = 0; i < words.size(); i += 2) {
    int64_t* const part = words[i] == "min"        ? &rule->min
                          : words[i] == "max"      ? &rule->max
                          : words[i] == "multiple" ? &rule->multiple
                                                   : nullptr;
    if (part == nullptr)
      return quoted(words[i]) +
             ": allowed: min max multiple, each with a number";
    const auto value = i + 1 < words.size() ? positive(words[i + 1])
                                            : std::optional<int64_t>();
    if (!value)
      return quoted(text) + ": " + std::string(words[i]) + " needs a number";
    *part = *value;
  }
  return "";
}

// "f16" for all three, or "f32/f16/f32" for q, kv, o.
std::string read_dtypes(std::string_view text, qkvet_capabilities& declared) {
  declared.dtype_count = 0;
  for (const std::string_view word : split(text)) {
    std::array<std::string_view, 3> names = {word, word, word};
    const size_t first = word.find('/');
    if (first != std::string_view::npos) {
      const size_t second = std::min(word.find('/', first + 1), word.size());
      names = {word.substr(0, first),
               word.substr(first + 1, second - first - 1),
               word.substr(std::min(second + 1, word.size()))};
    }
    std::array<qkvet_dtype, 3> dtypes{};
    for (size_t i = 0; i < names.size(); ++i) {
      const auto dtype = dtype_from_name(names[i]);
      if (!dtype)
        return quoted(word) +
               ": allowed: a storage type such as f16, or those of q/kv/o";
      dtypes[i] = dtype_to_abi(*dtype);
    }
    if (declared.dtype_count == 16) return "more than 16 storage types";
    declared.dtypes[declared.dtype_count++] = {dtypes[0], dtypes[1], dtypes[2]};
  }
  return "";
}

std::string read_page_sizes(std::string_view text,
                            qkvet_capabilities& declared) {
  declared.page_size_count = 0;
  for (const std::string_view word : split(text)) {
    const auto size = positive(word);
    if (!size) return quoted(word) + ": a page size is a positive number";
    if (declared.page_size_count == 16) return "more than 16 page sizes";
    declared.page_sizes[declared.page_size_count++] = *size;
  }
  return "";
}

std::string read_subject(std::string_view text, KernelInfo& declared) {
  declared.has_forward = declared.has_layer = false;
  for (const std::string_view word : split(text)) {
    if (word != "attention" && word != "layer")
      return quoted(word) + ": allowed: attention layer";
    (word == "layer" ? declared.has_layer : declared.has_forward) = true;
  }
  return "";
}

qkvet_extent_rule* rule_of(std::string_view key, qkvet_capabilities& c) {
  for (const ExtentRow& row : extent_rows())
    if (key == row.key) return &(c.*row.rule);
  return nullptr;
}

// A rule for d or dv next to a list of widths, as for a convention that a
// kernel has in part, leaves the widths that keep it, unless none does.
void keep_widths_of_rules(qkvet_capabilities& c) {
  qkvet_width* const end = c.widths + c.width_count;
  const auto keeps = [&c](const qkvet_width& width) {
    return allows(c.d, width.d) &&
           allows(c.dv, width.dv == 0 ? width.d : width.dv);
  };
  if (std::any_of(c.widths, end, keeps))
    c.width_count = static_cast<int32_t>(
        std::stable_partition(c.widths, end, keeps) - c.widths);
}

constexpr std::string_view kOwnFields =
    "subject source options flags layouts dtypes d dv group tq tk b h "
    "widths page_sizes paths rope layer layer.fused layer.weight layer.mask "
    "pages.order "
    "pages.pool case";

}  // namespace

std::vector<std::pair<std::string, uint64_t>> all_bits(BitKind kind) {
  std::vector<std::pair<std::string, uint64_t>> bits;
  for (const BitWord& row : words_of(kind))
    bits.emplace_back(row.word, row.bit);
  return bits;
}

std::vector<std::string> bit_words(BitKind kind, uint64_t bits) {
  std::vector<std::string> words;
  for (const BitWord& row : words_of(kind))
    if ((bits & row.bit) != 0) words.emplace_back(row.word);
  return words;
}

const char* bit_prefix(BitKind kind) {
  switch (kind) {
    case BitKind::kFlag:
      return "QKVET_FLAG_";
    case BitKind::kLayout:
      return "QKVET_LAYOUT_";
    case BitKind::kLayer:
      return "QKVET_LAYER_";
    default:
      return "QKVET_OPTION_";
  }
}

std::string declare(std::string_view key, std::string_view value,
                    Convention& convention) {
  KernelInfo& declared = convention.declared;
  qkvet_capabilities& capabilities = declared.capabilities;
  if (value.empty()) return std::string(key) + " has no value";
  if (key == "subject") return read_subject(value, declared);
  if (key == "source") return convention.sources.emplace_back(value), "";
  if (key == "case") return convention.cases.emplace_back(value), "";
  if (key == "options")
    return read_bits(BitKind::kOption, value, &capabilities.options);
  constexpr uint64_t kOfRopes =
      QKVET_FLAG_ROPE_HALF_ONLY | QKVET_FLAG_ROPE_INTERLEAVED_ONLY;
  if (key == "flags") {
    const uint64_t of_ropes = capabilities.flags & kOfRopes;
    std::string why = read_bits(BitKind::kFlag, value, &capabilities.flags);
    capabilities.flags |= of_ropes;
    return why;
  }
  if (key == "layouts")
    return read_bits(BitKind::kLayout, value, &capabilities.layouts);
  if (key == "layer")
    return read_bits(BitKind::kLayer, value, &declared.layer_options);
  if (key == "dtypes") return read_dtypes(value, capabilities);
  if (key == "page_sizes") return read_page_sizes(value, capabilities);
  if (key == "paths") return read_paths(value, capabilities);
  if (key == "widths") return read_widths(value, capabilities);
  if (key == "rope") {
    const std::string why = read_ropes(value, &convention.ropes);
    if (why.empty() && convention.ropes.size() == 1)
      capabilities.flags |= convention.ropes[0] == RopeStyle::kHalf
                                ? QKVET_FLAG_ROPE_HALF_ONLY
                                : QKVET_FLAG_ROPE_INTERLEAVED_ONLY;
    return why;
  }
  if (key == "layer.fused")
    return read_word(value, kFusedWords, &convention.layer.fused);
  if (key == "layer.weight")
    return read_word(value, kWeights, &convention.layer.weight);
  if (key == "layer.mask")
    return read_word(value, kMasks, &convention.layer.mask);
  if (key == "pages.order")
    return read_word(value, kAxes, &convention.pages.order);
  if (key == "pages.pool")
    return read_word(value, kPools, &convention.pages.pool);
  if (qkvet_extent_rule* rule = rule_of(key, capabilities); rule != nullptr) {
    const std::string why = read_extent(value, rule);
    if (why.empty()) keep_widths_of_rules(capabilities);
    return why;
  }
  // All other keys are dialect fields; parse_dialect() has their table.
  std::string why = parse_dialect(
      "", std::string(key) + " = " + std::string(value), declared.dialect);
  constexpr std::string_view kPlace = ":1: ";
  if (why.starts_with(kPlace)) why.erase(0, kPlace.size());
  if (why.starts_with("unknown field")) why += " " + std::string(kOwnFields);
  return why;
}

}  // namespace qkvet::properties
