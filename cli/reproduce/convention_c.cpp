// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/convention_c.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <span>

#include "core/capability/declaration.h"
#include "core/capability/extents.h"
#include "core/capability/paths.h"

namespace qkvet::cli {
namespace {

std::string upper(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "QKVET_OPTION_A |\n               QKVET_OPTION_B", in lines that fit.
std::string bits_c(BitKind kind, uint64_t bits, size_t indent) {
  constexpr size_t kWidth = 80;
  std::string text;
  size_t at = indent;
  for (const std::string& word : bit_words(kind, bits)) {
    const std::string name = bit_prefix(kind) + upper(word);
    if (!text.empty()) {
      text += " |";
      const bool fits = at + 3 + name.size() + 2 <= kWidth;
      text += fits ? " " : "\n" + std::string(indent, ' ');
      at = fits ? at + 3 : indent;
    }
    text += name;
    at += name.size();
  }
  return text;
}

std::string bits_field(const char* name, BitKind kind, uint64_t bits) {
  if (bits == 0) return "";
  const std::string lead = fmt::format("    .{} = ", name);
  return lead + bits_c(kind, bits, lead.size()) + ",\n";
}

std::string extent_field(const char* name, const qkvet_extent_rule& rule) {
  if (rule.min == 0 && rule.max == 0 && rule.multiple == 0) return "";
  return fmt::format("    .{} = {{.min = {}, .max = {}, .multiple = {}}},\n",
                     name, rule.min, rule.max, rule.multiple);
}

// Rules in the order of the fields, as C++ requires.
std::string extent_fields(const qkvet_capabilities& c, ExtentName first,
                          ExtentName last) {
  std::string text;
  for (auto n = static_cast<size_t>(first); n <= static_cast<size_t>(last); ++n)
    text += extent_field(extent_rows()[n].key, c.*extent_rows()[n].rule);
  return text;
}

std::string width_fields(const qkvet_capabilities& c) {
  if (c.width_count == 0) return "";
  std::string widths;
  for (const qkvet_width& width : std::span(c.widths, c.width_count))
    widths += fmt::format("{}{{{}, {}}}", widths.empty() ? "" : ", ", width.d,
                          width.dv);
  return fmt::format("    .width_count = {},\n    .widths = {{{}}},\n",
                     c.width_count, widths);
}

// "{QKVET_DTYPE_FLOAT, 32, 1}"
std::string dtype_c(const qkvet_dtype& dtype) {
  const char* code = dtype.code == QKVET_DTYPE_BFLOAT ? "BFLOAT"
                     : dtype.code == QKVET_DTYPE_INT  ? "INT"
                     : dtype.code == QKVET_DTYPE_UINT ? "UINT"
                                                      : "FLOAT";
  return fmt::format("{{QKVET_DTYPE_{}, {}, 1}}", code, dtype.bits);
}

std::string dtype_fields(const qkvet_capabilities& c) {
  if (c.dtype_count == 0) return "";
  std::string text = fmt::format(
      "    .dtype_count = {},\n"
      "    .dtypes = {{ /* q, kv, o */\n",
      c.dtype_count);
  for (const auto& rule : std::span(c.dtypes, c.dtype_count))
    text += fmt::format("        {{{}, {}, {}}},\n", dtype_c(rule.q),
                        dtype_c(rule.kv), dtype_c(rule.o));
  return text + "    },\n";
}

std::string page_size_fields(const qkvet_capabilities& c) {
  if (c.page_size_count == 0) return "";
  std::string sizes;
  for (const int64_t size : std::span(c.page_sizes, c.page_size_count))
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return fmt::format("    .page_size_count = {},\n    .page_sizes = {{{}}},\n",
                     c.page_size_count, sizes);
}

std::string path_fields(const qkvet_capabilities& c) {
  if (c.path_count == 0) return "";
  std::string paths;
  for (const qkvet_path& path : paths_of(c))
    paths += fmt::format("{}{{{}, {}}}", paths.empty() ? "" : ", ",
                         axis_constant(path), path.at);
  return fmt::format("    .path_count = {},\n    .paths = {{{}}},\n",
                     c.path_count, paths);
}

std::string capabilities_c(const qkvet_capabilities& c) {
  return "static const qkvet_capabilities kCapabilities = {\n"
         "    .struct_size = sizeof(qkvet_capabilities),\n" +
         bits_field("options", BitKind::kOption, c.options) +
         bits_field("flags", BitKind::kFlag, c.flags) +
         bits_field("layouts", BitKind::kLayout, c.layouts) + dtype_fields(c) +
         extent_fields(c, ExtentName::kD, ExtentName::kTk) +
         page_size_fields(c) + path_fields(c) +
         extent_fields(c, ExtentName::kB, ExtentName::kH) + width_fields(c) +
         "};\n";
}

std::string dialect_c(const qkvet_dialect& dialect) {
  std::string fields;
  for (const DeclaredWord& one : declared_words(dialect))
    fields += fmt::format("    .{} = {},\n", one.field, one.constant);
  if (fields.empty()) return "";
  return "\nstatic const qkvet_dialect kDialect = {\n"
         "    .struct_size = sizeof(qkvet_dialect),\n" +
         fields + "};\n";
}

std::string layer_c(const KernelInfo& declared) {
  if (!declared.has_layer) return "";
  const std::string lead = "static const uint64_t kLayerOptions = ";
  return "\n/* options of your qkvet_layer_table */\n" + lead +
         (declared.layer_options == 0
              ? "0"
              : bits_c(BitKind::kLayer, declared.layer_options, lead.size())) +
         ";\n";
}

}  // namespace

std::string convention_c(const Convention& convention) {
  return capabilities_c(convention.declared.capabilities) +
         dialect_c(convention.declared.dialect) + layer_c(convention.declared);
}

}  // namespace qkvet::cli
