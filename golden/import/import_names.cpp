// SPDX-License-Identifier: Apache-2.0
#include "golden/import/import_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/call/tensor_table.h"
#include "golden/format/reshape.h"

namespace qkvet::golden {
namespace {

// The layout of a tensor in a file.
enum class Kind : uint8_t { kQueries, kKeys, kMask, kLse, kWeights, kAsItIs };

Kind kind_of(std::string_view name) {
  if (name == "q" || name == "o") return Kind::kQueries;
  if (name == "k" || name == "v") return Kind::kKeys;
  if (name == "mask" || name == "bias") return Kind::kMask;
  if (name == "lse") return Kind::kLse;
  if (name == "weights") return Kind::kWeights;
  return Kind::kAsItIs;
}

bool is_name(std::string_view name) {
  const auto all = import_aliases();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& row) { return row.name == name; });
}

std::string allowed_names() {
  std::string text;
  for (const ImportAliases& row : import_aliases())
    text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

// Makes ASCII letters small, and only those.
std::string small(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

bool is_floating(FileDtype dtype) {
  return dtype == FileDtype::kF64 || dtype == FileDtype::kF32 ||
         dtype == FileDtype::kF16 || dtype == FileDtype::kBf16;
}

// QKVet's name for each of the file's that is taken.
class Names {
 public:
  Names(const NamedTensors& file, const ImportRules& rules)
      : file_(file), rules_(rules) {}

  // "" or what is wrong; then *taken is QKVet's name -> the file's.
  std::string find(std::map<std::string, std::string>* taken);
  std::vector<std::string> ignored() const;

 private:
  std::string find_mapped();
  std::string no_such_tensor(const std::string& name,
                             const std::string& theirs) const;
  std::string find_alias(std::string_view name, const ImportAliases& row);
  std::string take(std::string_view name, const std::string& theirs);

  const NamedTensors& file_;
  const ImportRules& rules_;
  std::map<std::string, std::string> taken_;
};

// A mask is classified by its numbers, not by its name.
std::string Names::take(std::string_view name, const std::string& theirs) {
  std::string ours(name);
  if (kind_of(ours) == Kind::kMask)
    ours = is_floating(file_.find(theirs)->second.dtype) ? "bias" : "mask";
  const auto [place, is_new] = taken_.try_emplace(ours, theirs);
  if (is_new || place->second == theirs) return "";
  return shown(place->second) + " and " + shown(theirs) + " would both be " +
         ours + "; --map " + ours + "=... says which it is";
}

std::string Names::no_such_tensor(const std::string& name,
                                  const std::string& theirs) const {
  return "--map " + name + "=" + theirs + ": there is no " + shown(theirs) +
         "; the file has " + names_text(file_);
}

std::string Names::find_mapped() {
  for (const auto& [name, theirs] : rules_.names) {
    if (!file_.contains(theirs)) return no_such_tensor(name, theirs);
    if (std::string wrong = take(name, theirs); !wrong.empty()) return wrong;
  }
  return "";
}

std::string Names::find_alias(std::string_view name, const ImportAliases& row) {
  const auto is_mapped = [&](const std::string& theirs) {
    return std::any_of(rules_.names.begin(), rules_.names.end(),
                       [&](const auto& rule) { return rule.second == theirs; });
  };
  for (const auto& [theirs, tensor] : file_) {
    if (is_mapped(theirs)) continue;
    if (std::find(row.aliases.begin(), row.aliases.end(), small(theirs)) ==
        row.aliases.end())
      continue;
    if (std::string wrong = take(name, theirs); !wrong.empty()) return wrong;
  }
  return "";
}

std::string Names::find(std::map<std::string, std::string>* taken) {
  if (std::string wrong = find_mapped(); !wrong.empty()) return wrong;
  const std::map<std::string, std::string> mapped = taken_;
  for (const ImportAliases& row : import_aliases()) {
    std::string name(row.name);
    // The output of a layer is y, that of attention is o. The row of x comes
    // first.
    if (name == "o" || name == "y") name = taken_.contains("x") ? "y" : "o";
    if (mapped.contains(name)) continue;
    if (std::string wrong = find_alias(name, row); !wrong.empty()) return wrong;
  }
  *taken = taken_;
  return "";
}

std::vector<std::string> Names::ignored() const {
  std::vector<std::string> names;
  for (const auto& entry : file_)
    if (std::none_of(taken_.begin(), taken_.end(), [&](const auto& taken) {
          return taken.second == entry.first;
        }))
      names.push_back(entry.first);
  return names;
}

// Brings one tensor into QKVet's extents. "" or what is wrong.
class Layouts {
 public:
  explicit Layouts(const ImportRules& rules) : rules_(rules) {}

  std::string apply(std::string_view name, NamedTensor& tensor) const;
  // Once q has its extents.
  static std::string fit_lse(const NamedTensor* q, NamedTensor& lse);
  static std::string fit_weights(NamedTensor& weights);

 private:
  std::string rows(int64_t heads, NamedTensor& tensor) const;

  const ImportRules& rules_;
};

std::string refused(const NamedTensor& tensor, const std::string& wanted) {
  return file_tensor_text(tensor.dtype, tensor.shape) + ", but " + wanted +
         " is wanted";
}

std::string Layouts::rows(int64_t heads, NamedTensor& tensor) const {
  const size_t rank = tensor.shape.size();
  if (rules_.layout == ImportLayout::kThd) {
    if (rank != 3) return refused(tensor, "[T,H,d] of layout thd");
    widen(tensor, 4);
    tensor = middle_swapped(tensor);
    return "";
  }
  if (rank == 3 && heads > 0) {
    if (tensor.shape[2] % heads != 0)
      return refused(tensor,
                     "[B,T,H*d] with " + std::to_string(heads) + " heads");
    tensor = heads_apart(tensor, heads);
    return "";
  }
  if (rank != 4)
    return refused(tensor, std::string(rules_.layout == ImportLayout::kBthd
                                           ? "[B,T,H,d] of layout bthd"
                                           : "[B,H,T,d] of layout bhtd") +
                               ", [B,T,H*d] with --layout H8, or [T,H,d] "
                               "with --layout thd");
  if (rules_.layout == ImportLayout::kBthd) tensor = middle_swapped(tensor);
  return "";
}

std::string Layouts::apply(std::string_view name, NamedTensor& tensor) const {
  switch (kind_of(name)) {
    case Kind::kQueries:
      return rows(rules_.heads, tensor);
    case Kind::kKeys:
      return rows(rules_.kv_heads, tensor);
    case Kind::kMask:
      break;
    default:
      return "";
  }
  if (tensor.shape.size() > 4)
    return refused(tensor, "[B,H,Tq,Tk], or the last of these,");
  widen(tensor, 4);
  if (is_floating(tensor.dtype) || tensor.dtype == FileDtype::kBool ||
      tensor.dtype == FileDtype::kUint8)
    return "";
  // Nonzero attends.
  const std::vector<double> numbers = numbers_of(tensor);
  tensor.dtype = FileDtype::kBool;
  tensor.data.clear();
  for (const double number : numbers)
    tensor.data.push_back(number != 0 ? std::byte{1} : std::byte{0});
  return "";
}

std::string Layouts::fit_lse(const NamedTensor* q, NamedTensor& lse) {
  if (lse.shape.size() == 2) widen(lse, 3);
  if (lse.shape.size() != 3) return refused(lse, "[B,H,Tq]");
  if (q == nullptr) return "";
  const std::vector<int64_t> wanted(q->shape.begin(), q->shape.begin() + 3);
  const std::vector<int64_t> turned = {wanted[0], wanted[2], wanted[1]};
  constexpr std::array<size_t, 3> kTurn = {0, 2, 1};
  if (lse.shape != wanted && lse.shape == turned) lse = permuted(lse, kTurn);
  return lse.shape == wanted
             ? ""
             : refused(lse, "[B,H,Tq] of q, " +
                                file_tensor_text(lse.dtype, wanted) + ",");
}

std::string Layouts::fit_weights(NamedTensor& weights) {
  if (weights.shape.size() == 3) widen(weights, 4);
  return weights.shape.size() == 4 ? "" : refused(weights, "[B,H,Tq,Tk]");
}

std::string fit(const Layouts& layouts, NamedTensors& tensors) {
  for (auto& [name, tensor] : tensors) {
    std::string wrong = check_tensor({tensor.dtype, tensor.shape, tensor.data});
    if (wrong.empty()) wrong = layouts.apply(name, tensor);
    if (!wrong.empty()) return std::string(name).append(" is ").append(wrong);
  }
  const auto q = tensors.find("q");
  const NamedTensor* of_q = q != tensors.end() ? &q->second : nullptr;
  for (auto& [name, tensor] : tensors) {
    std::string wrong;
    if (kind_of(name) == Kind::kLse) wrong = Layouts::fit_lse(of_q, tensor);
    if (kind_of(name) == Kind::kWeights) wrong = Layouts::fit_weights(tensor);
    if (!wrong.empty()) return std::string(name).append(" is ").append(wrong);
  }
  return "";
}

bool read_heads(std::string_view text, int64_t& heads) {
  const auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), heads);
  return code == std::errc() && end == text.data() + text.size() && heads > 0;
}

}  // namespace

std::string parse_import_words(const ImportWords& words, ImportRules& rules) {
  std::string wrong;
  if (!words.map.empty()) wrong = parse_name_map(words.map, rules);
  if (wrong.empty() && !words.layout.empty())
    wrong = parse_import_layout(words.layout, rules);
  return wrong;
}

std::span<const ImportAliases> import_aliases() {
  // Beside their own name, by which all are taken.
  static const std::vector<ImportAliases> also = {
      {"q", {"query", "queries", "query_states", "query_layer", "xq"}},
      {"k", {"key", "keys", "key_states", "key_layer", "xk"}},
      {"v", {"value", "values", "value_states", "value_layer", "xv"}},
      {"mask", {"attn_mask", "attention_mask"}},
      {"bias", {"attn_bias", "attention_bias"}},
      {"sink", {"sinks", "attn_sink", "attention_sinks", "s_aux"}},
      {"slopes", {"alibi", "alibi_slopes"}},
      {"key_indices", {"indices", "topk_indices", "topk_idxs"}},
      {"topk_length", {"topk_lengths"}},
      {"segments_q", {"q_segment_ids"}},
      {"segments_k", {"kv_segment_ids"}},
      {"full_ranges", {"mm_prefix_range"}},
      {"tree_mask", {"custom_mask"}},
      {"x", {"hidden_states"}},
      {"w_q", {"wq"}},
      {"w_k", {"wk"}},
      {"w_v", {"wv"}},
      {"w_o", {"wo"}},
      {"b_q", {"bq"}},
      {"b_k", {"bk"}},
      {"b_v", {"bv"}},
      {"b_o", {"bo"}},
      {"o",
       {"out", "output", "attn_out", "attn_output", "attention_output",
        "context_layer"}},
      {"lse", {"softmax_lse", "logsumexp"}},
      {"weights",
       {"attn_weights", "attention_weights", "attn_probs", "attention_probs"}}};
  static const std::vector<ImportAliases> rows = [] {
    std::vector<ImportAliases> all;
    for (const TensorRow& row : kTensors) {
      if (row.recorded == Recorded::kNo) continue;
      ImportAliases& one = all.emplace_back();
      one = {row.name, {row.name}};
      for (const auto& [name, aliases] : also)
        if (name == row.name)
          one.aliases.insert(one.aliases.end(), aliases.begin(), aliases.end());
    }
    return all;
  }();
  return rows;
}

std::string parse_name_map(std::string_view text, ImportRules& rules) {
  const std::string allowed =
      "; allowed is a list of NAME=THEIRS, with NAME one of " + allowed_names();
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    const size_t equals = entry.find('=');
    const std::string name(entry.substr(0, equals));
    if (equals == std::string_view::npos || equals + 1 == entry.size() ||
        !is_name(name))
      return "--map " + shown(entry) + allowed;
    if (!rules.names.try_emplace(name, entry.substr(equals + 1)).second)
      return std::string("--map names ").append(name) + " twice" + allowed;
    if (comma == std::string_view::npos) return "";
    text.remove_prefix(comma + 1);
  }
}

std::string parse_import_layout(std::string_view text, ImportRules& rules) {
  constexpr std::array<std::string_view, 3> kNames = {"bhtd", "bthd", "thd"};
  ImportRules read = rules;
  bool good = true;
  for (size_t from = 0; good && from <= text.size();) {
    const size_t end = std::min(text.find(',', from), text.size());
    const std::string_view part = text.substr(from, end - from);
    const auto* found = std::find(kNames.begin(), kNames.end(), part);
    if (found != kNames.end())
      read.layout = static_cast<ImportLayout>(found - kNames.begin());
    else if (part.starts_with("Hkv"))
      good = read_heads(part.substr(3), read.kv_heads);
    else
      good = part.starts_with('H') && read_heads(part.substr(1), read.heads);
    from = end + 1;
  }
  if (read.kv_heads == 0) read.kv_heads = read.heads;
  if (!good || (read.heads == 0) != (read.kv_heads == 0) ||
      (read.heads > 0 && read.heads % read.kv_heads != 0))
    return "--layout " + shown(text) +
           "; allowed are bhtd, bthd or thd, and H8,Hkv2 with H a multiple of "
           "Hkv";
  rules = read;
  return "";
}

std::optional<ImportedTensors> import_tensors(const NamedTensors& file,
                                              const ImportRules& rules,
                                              std::string* error) {
  Names names(file, rules);
  std::map<std::string, std::string> taken;
  *error = names.find(&taken);
  if (!error->empty()) return std::nullopt;
  ImportedTensors result;
  for (const auto& [ours, theirs] : taken)
    result.tensors[ours] = file.find(theirs)->second;
  *error = fit(Layouts(rules), result.tensors);
  if (!error->empty()) return std::nullopt;
  result.ignored = names.ignored();
  return result;
}

}  // namespace qkvet::golden
