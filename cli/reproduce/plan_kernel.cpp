// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/plan_kernel.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "core/capability/declaration.h"
#include "core/capability/option_table.h"
#include "properties/conventions/conventions.h"
#include "properties/judging/needs_a_run.h"

namespace qkvet::cli {
namespace {

struct OptionWord {
  std::string_view word;
  uint64_t options = 0;   // QKVET_OPTION_*
  uint64_t layer = 0;     // QKVET_LAYER_*
  uint64_t flags = 0;     // QKVET_FLAG_*
  bool is_part = false;   // it belongs to another word
  uint64_t backward = 0;  // QKVET_BACKWARD_*
};

constexpr const char* kAttention = "attention";
constexpr const char* kLayer = "layer";
constexpr const char* kBackward = "backward";
constexpr const char* kLayerBackward = "layer_backward";
constexpr const char* kDefaultScale = "default_scale";

// Options that have another word in a plan, that are in every row, or that no
// plan uses. All others are spelled as in any declaration.
constexpr uint64_t kNotByTheirWord =
    QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
    QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_SCALE |
    QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_DROPOUT |
    QKVET_OPTION_DROPOUT_MASK | QKVET_OPTION_PAGED | QKVET_OPTION_APPEND |
    QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
    QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_VALUES_IN_KEYS |
    QKVET_OPTION_INT32_LENGTHS | QKVET_OPTION_QUANT_SCALES;

uint64_t layer_bit(uint64_t option) {
  return option == QKVET_OPTION_ROPE        ? QKVET_LAYER_ROPE
         : option == QKVET_OPTION_ROPE_PART ? QKVET_LAYER_ROPE_PART
                                            : 0;
}

constexpr OptionWord kOptionWords[] = {
    {kAttention},
    {kLayer},
    {"causal", QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT},
    {"causal=tl", QKVET_OPTION_CAUSAL_TOP_LEFT, 0, 0, true},
    {"causal=br", QKVET_OPTION_CAUSAL_BOTTOM_RIGHT, 0, 0, true},
    {"gqa", QKVET_OPTION_GROUPED_HEADS}};
constexpr OptionWord kOtherWords[] = {
    {"layer_biases", 0, QKVET_LAYER_BIASES},
    {"layer_stages", 0, QKVET_LAYER_STAGES},
    {"layer_unbatched", 0, QKVET_LAYER_UNBATCHED},
    {kLayerBackward},
    {kBackward},
    {.word = "backward_bias", .backward = QKVET_BACKWARD_BIAS},
    {.word = "backward_sink", .backward = QKVET_BACKWARD_SINK},
    {.word = kDefaultScale, .is_part = true}};

const std::vector<OptionWord>& plan_words() {
  static const std::vector<OptionWord> all = [] {
    std::vector<OptionWord> list(std::begin(kOptionWords),
                                 std::end(kOptionWords));
    for (const OptionRow& row : option_rows())
      if ((kNotByTheirWord & row.option) == 0)
        list.push_back({row.word, row.option, layer_bit(row.option)});
    list.insert(list.end(), std::begin(kOtherWords), std::end(kOtherWords));
    for (const FlagWord& row : kFlagWords)
      if (row.in_plans) list.push_back({.word = row.word, .flags = row.flag});
    return list;
  }();
  return all;
}

// Abilities of a kernel; limits and refusals are not included.
bool is_ability(const OptionWord& word) {
  return word.flags == 0 && !word.is_part;
}

const OptionWord* find_word(std::string_view text) {
  for (const OptionWord& word : plan_words())
    if (text == word.word) return &word;
  return nullptr;
}

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Laws that plans have no word for, in addition to needs_a_run().
struct NotInFiles {
  const char* law;
  const char* why;
};
constexpr NotInFiles kNotInFiles[] = {
    {"channel_groups_change_nothing", "a plan asks for no pages"},
    {"int32_lengths_change_nothing", "the lengths of a plan are int64"},
    {"listed_pages_equal_rows", "a plan asks for no pages"},
    {"page_lists_equal_block_table", "a plan asks for no pages"},
    {"page_placement_changes_nothing", "a plan asks for no pages"},
    {"page_size_changes_nothing", "a plan asks for no pages"},
    {"unowned_pages_change_nothing", "a plan asks for no pages"},
    {"values_in_keys_equal_own_values", "the values of a plan are a file"},
    {"append_writes_only_its_tokens", "a plan asks for no appending"},
    {"append_equals_given", "a plan asks for no appending"},
    {"dropout_keeps_its_share", "a plan asks for no dropout"},
    {"dropout_is_a_function_of_its_seed", "a plan asks for no dropout"},
    {"dropout_zero_is_no_dropout", "a plan asks for no dropout"},
    {"dropout_agrees_with_oracle", "a plan asks for no dropout"},
    {"dropout_same_in_backward", "a plan asks for no dropout"}};

}  // namespace

std::string plan_option_names() {
  std::string text;
  for (const OptionWord& word : plan_words())
    text += (text.empty() ? "" : ", ") + std::string(word.word);
  return text;
}

std::vector<std::string> default_plan_options() {
  return {kAttention, "causal", "gqa", "cross_lengths"};
}

std::vector<std::string> parse_plan_options(const std::string& text,
                                            std::string* error) {
  std::vector<std::string> named;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    if (word != "all" && find_word(word) == nullptr) {
      *error = "--options: \"" + word + "\" is no option; allowed: all, " +
               plan_option_names();
      return {};
    }
    named.push_back(word);
  }
  std::vector<std::string> words;
  for (const OptionWord& word : plan_words())
    if (has_word(named, word.word) ||
        (has_word(named, "all") && is_ability(word)))
      words.emplace_back(word.word);
  // A layer's gradient needs the layer: its laws come first.
  if (has_word(words, kLayerBackward) && !has_word(words, kLayer))
    words.insert(words.begin(), kLayer);
  // A layer alone has no attention on q, k and v; backward() needs the outputs
  // of attention's forward pass.
  if (!has_word(words, kAttention) &&
      (!has_word(words, kLayer) || has_word(words, kBackward)))
    words.insert(words.begin(), kAttention);
  return words;
}

std::string declared_kernel(const PlanKernel& plan, JudgedKernel* judged) {
  KernelInfo& info = judged->info;
  info.name = plan.name;
  info.has_forward = has_word(plan.options, kAttention);
  info.has_layer = has_word(plan.options, kLayer);
  info.has_backward = has_word(plan.options, kBackward);
  info.has_layer_backward = has_word(plan.options, kLayerBackward);
  qkvet_capabilities& can = info.capabilities;
  can.struct_size = sizeof can;
  // The scale is in every row of a plan.
  can.options = QKVET_OPTION_DEFAULT_SCALE;
  if (!has_word(plan.options, kDefaultScale)) can.options |= QKVET_OPTION_SCALE;
  for (const std::string& text : plan.options) {
    const OptionWord* word = find_word(text);
    if (word == nullptr)
      return "\"" + text + "\" is no option; allowed: " + plan_option_names();
    can.options |= word->options;
    can.flags |= word->flags;
    info.layer_options |= word->layer;
    info.backward_options |= word->backward;
  }
  constexpr size_t kMostRules = std::size(qkvet_capabilities{}.dtypes);
  if (plan.dtypes.empty() || plan.dtypes.size() > kMostRules)
    return "allowed are 1 to " + std::to_string(kMostRules) + " storage types";
  for (const StorageTypes& types : plan.dtypes)
    can.dtypes[can.dtype_count++] = {
        dtype_to_abi(types.q), dtype_to_abi(types.kv), dtype_to_abi(types.o)};
  std::string error = parse_dialect("dialect", plan.dialect, info.dialect);
  if (error.empty() && !plan.precision.empty())
    error = parse_precision("precision", plan.precision, info.precision);
  if (!error.empty()) return error;
  const ResolvedPrecision precision = resolve_precision(info.precision);
  judged->model = precision.model;
  judged->looser_than_generic = precision.looser_than_generic;
  return precision.error;
}

std::string declare_more(const std::string& dialect,
                         const std::string& precision, JudgedKernel* kernel) {
  std::string error;
  if (!dialect.empty())
    error = read_dialect_or_convention(dialect, kernel->info.dialect);
  if (error.empty() && !precision.empty())
    error = read_precision(precision, kernel->info.precision);
  if (!error.empty()) return error;
  const ResolvedPrecision resolved = resolve_precision(kernel->info.precision);
  kernel->model = resolved.model;
  kernel->looser_than_generic = resolved.looser_than_generic;
  return resolved.error;
}

std::string not_in_files_reason(const Law& law) {
  if (law.domain.subject == Subject::kCache)
    return "a cache lives between calls, and a plan has single ones";
  for (const NotInFiles& row : kNotInFiles)
    if (std::string_view(law.id) == row.law) return row.why;
  return needs_a_run(law);
}

}  // namespace qkvet::cli
