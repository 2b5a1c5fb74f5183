// SPDX-License-Identifier: Apache-2.0
// qkvet explain ./lib.so: the kernels of a library, with their declarations in
// the words of properties/conventions.md.
#include <fmt/core.h>

#include <cstdio>
#include <span>
#include <sstream>

#include "cli/commands/lists.h"
#include "cli/kernels/build_cache.h"
#include "cli/terminal/select.h"
#include "core/capability/declaration.h"
#include "core/capability/extents.h"
#include "core/capability/paths.h"
#include "properties/conventions/conventions.h"
#include "reference/arithmetic/precision.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// A field of a declaration and its words.
using Declared = std::pair<std::string, std::string>;

std::string in_words(const std::vector<std::string>& words) {
  return joined(words, " ");
}

std::string declared_subjects(const KernelInfo& info) {
  const std::pair<bool, const char*> subjects[] = {
      {info.has_forward, "attention"},
      {info.has_backward, "backward"},
      {info.has_cache, "cache"},
      {info.has_layer, "layer"},
      {info.has_layer && info.has_layer_backward, "layer_backward"},
      {info.has_merge, "merge"},
      {info.has_plan, "plans"}};
  std::vector<std::string> words;
  for (const auto& [has, word] : subjects)
    if (has) words.emplace_back(word);
  return in_words(words);
}

std::string declared_dtypes_text(const qkvet_capabilities& c) {
  const auto word = [](const qkvet_dtype& dtype) {
    const auto known = dtype_from_abi(dtype);
    return known ? std::string(dtype_name(*known)) : std::string("other");
  };
  if (c.dtype_count == 0) return "f32";
  std::vector<std::string> words;
  for (const qkvet_dtype_rule& rule :
       std::span(c.dtypes, static_cast<size_t>(c.dtype_count))) {
    const std::string q = word(rule.q), kv = word(rule.kv), o = word(rule.o);
    words.push_back(q == kv && kv == o ? q : fmt::format("{}/{}/{}", q, kv, o));
  }
  return in_words(words);
}

std::string declared_extent(const qkvet_extent_rule& rule) {
  std::vector<std::string> words;
  const std::pair<const char*, int64_t> parts[] = {
      {"min", rule.min}, {"max", rule.max}, {"multiple", rule.multiple}};
  for (const auto& [word, number] : parts)
    if (number > 0) words.push_back(fmt::format("{} {}", word, number));
  return in_words(words);
}

std::string declared_pages(const qkvet_capabilities& c) {
  std::vector<std::string> words;
  for (const int64_t size :
       std::span(c.page_sizes, static_cast<size_t>(c.page_size_count)))
    words.push_back(std::to_string(size));
  return in_words(words);
}

std::string declared_precision(const KernelInfo& info) {
  if (info.precision.struct_size == 0) return "";
  const ResolvedPrecision precision = resolve_precision(info.precision);
  return !precision.error.empty() ? precision.error
         : precision.looser.empty()
             ? "declared, no looser than generic"
             : "looser than generic: " + precision.looser;
}

std::string declared_dialect(const qkvet_dialect& dialect) {
  std::istringstream lines(dialect_text(dialect));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    out += (out.empty() ? "" : "; ") + line;
  return out;
}

// Leaves out everything undeclared.
std::vector<Declared> declaration_of(const KernelInfo& info) {
  const qkvet_capabilities& c = info.capabilities;
  std::vector<Declared> fields = {
      {"subject", declared_subjects(info)},
      {"options", in_words(bit_words(BitKind::kOption, c.options))},
      {"flags", in_words(bit_words(BitKind::kFlag, c.flags))},
      {"layouts", in_words(bit_words(BitKind::kLayout, c.layouts))},
      {"layer", in_words(bit_words(BitKind::kLayer, info.layer_options))},
      {"dtypes", declared_dtypes_text(c)},
  };
  for (const ExtentRow& row : extent_rows())
    fields.emplace_back(row.key, declared_extent(c.*row.rule));
  fields.insert(
      fields.end(),
      {{"widths", widths_text(c)},
       {"page_sizes", declared_pages(c)},
       {"paths", paths_text(c)},
       {"device", info.device() == QKVET_DEVICE_CUDA ? "cuda" : ""},
       {"alignment", c.alignment > 0 ? std::to_string(c.alignment) : ""},
       {"dialect", declared_dialect(info.dialect)},
       {"precision", declared_precision(info)}});
  std::erase_if(fields, [](const Declared& one) { return one.second.empty(); });
  return fields;
}

void print_declared(const KernelInfo& info, bool json) {
  const std::vector<Declared> fields = declaration_of(info);
  if (json) {
    Json line = kernel_line(info, info.unavailable);
    for (const auto& [name, words] : fields) line["declares"][name] = words;
    std::fputs((json_text(line) + "\n").c_str(), stdout);
    return;
  }
  fmt::print("{}\n", info.name);
  const size_t width = screen_width();
  std::string out;
  if (!info.description.empty())
    out += wrapped_field("what", info.description, width);
  if (!info.unavailable.empty())
    out += wrapped_field("not here", info.unavailable, width);
  for (const auto& [name, words] : fields)
    out += wrapped_field(name, words, width);
  std::fputs(out.c_str(), stdout);
}

}  // namespace

ExitCode list_library(const ListOptions& options) {
  std::string library = options.what;
  if (kind_of_spec(library) == SpecKind::kSource) {
    const BuiltKernel built = build_kernel(library, "");
    if (!built.error.empty()) return wrong_use(built.error);
    library = built.library;
  }
  const Opened opened =
      open_sandbox(parse_plugin(library), {.worker = worker_path()});
  if (opened.executor == nullptr) return wrong_use(opened.error);
  for (const KernelInfo& info : opened.executor->kernels())
    print_declared(info, options.json);
  return kConforms;
}

}  // namespace qkvet::cli
