// SPDX-License-Identifier: Apache-2.0
// How a known library spells an attention call, and the declaration of a kernel
// that takes its calls.
#include "cli/commands/convention_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "cli/reproduce/convention_c.h"
#include "cli/terminal/select.h"
#include "core/base/json.h"
#include "core/capability/declaration.h"
#include "core/case/case.h"
#include "core/case/paging.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// The text for a screen, without the markup of the page.
std::string plain(std::string text) {
  std::erase(text, '`');
  return text;
}

// The first case of the convention that meets the condition.
template <class Condition>
std::optional<Case> first_case(const Convention& convention,
                               Condition condition) {
  for (const std::string& text : convention.cases)
    if (const auto value = parse_case(text).value; value && condition(*value))
      return value;
  return std::nullopt;
}

std::string matrices_text(const Convention& convention) {
  const auto value = first_case(
      convention, [](const Case& c) { return c.subject() == Subject::kLayer; });
  if (!value) return "";
  const bool fused = convention.layer.fused;
  std::string text =
      "\n" + wrapped_field(
                 "weights",
                 std::string("for ") + to_string(*value) + ", in elements of " +
                     (fused ? "one matrix for q, k, v and one for the output"
                            : "a matrix each"));
  const std::pair<TensorName, uint8_t> rows[] = {
      {TensorName::kWq, 0},      {TensorName::kWk, 0},
      {TensorName::kWv, 0},      {TensorName::kWo, 0},
      {TensorName::kBq, kBiasQ}, {TensorName::kBk, kBiasK},
      {TensorName::kBv, kBiasV}, {TensorName::kBo, kBiasO}};
  for (const auto& [name, bias] : rows) {
    if (bias != 0 && (value->biases & bias) == 0) continue;
    const MatrixView view = matrix_view(convention.layer, value->shape, name);
    text += field(tensor_name(name),
                  bias != 0
                      ? fmt::format("offset {:<6} stride  {}", view.offset,
                                    view.strides[1])
                      : fmt::format("offset {:<6} strides {}, {}", view.offset,
                                    view.strides[0], view.strides[1]));
  }
  return text;
}

std::string pages_text(const Convention& convention) {
  const auto value =
      first_case(convention, [](const Case& c) { return c.paging.size > 0; });
  if (!value) return "";
  constexpr int64_t kPages = 100;
  const int64_t group = channel_group_of(*value);
  const Shape& s = value->shape;
  std::string text =
      "\n" +
      wrapped_field("pages",
                    fmt::format("strides of [pages, Hkv, page_size, d]{} "
                                "for Hkv = {}, page_size = {}, d = {} and "
                                "a pool of {} pages",
                                group > 0 ? ", of k [pages, Hkv, page_size, "
                                            "d / x, x]"
                                          : "",
                                s.Hkv, value->paging.size, s.d, kPages));
  for (const bool is_value : {false, true}) {
    const PoolView view =
        pool_view(convention.pages,
                  {kPages, s.Hkv, value->paging.size, s.d, group}, is_value);
    const std::span strides(view.strides.data(),
                            group > 0 && !is_value ? 5U : 4U);
    text += field(
        is_value ? "v" : "k",
        fmt::format("offset {:<8} strides {}{}", view.offset, joined(strides),
                    convention.pages.pool == PagePool::kApart
                        ? "   of a tensor of its own"
                        : ""));
  }
  return text;
}

std::string facts_text(const Convention& convention) {
  std::string text = "\n";
  for (const ConventionFact& fact : convention.facts)
    text +=
        wrapped_field(fact.what, plain(fact.how + " (" + fact.source + ")"));
  return text;
}

std::string declaration_lines(const Convention& convention) {
  const std::string dialect = dialect_text(convention.declared.dialect);
  return "\n" +
         wrapped_field("declare it",
                       "in C11 or C++20, behind #include \"qkvet/kernel.h\"; "
                       "strike what your kernel cannot do, and add where it "
                       "runs (.devices) and how exactly (qkvet_precision)") +
         "\n" + convention_c(convention) +
         (dialect.empty()
              ? ""
              : "\n" +
                    wrapped_field("or", "without compiling again: --dialect " +
                                            convention.id +
                                            ", or a file of these lines") +
                    "\n" + dialect);
}

}  // namespace

ExitCode explain_convention(const Convention& convention) {
  std::string text =
      fmt::format("{}   a convention: {}\n", convention.id,
                  plain(convention.title)) +
      wrapped_field("mind", plain(convention.mind)) +
      wrapped_field("read at", joined(convention.sources, "; ")) +
      facts_text(convention) + "\n";
  for (const std::string& one : convention.cases)
    text += field(&one == &convention.cases.front() ? "takes" : "", one);
  fmt::print("{}{}{}{}", text, matrices_text(convention),
             pages_text(convention), declaration_lines(convention));
  return kConforms;
}

ExitCode list_conventions(bool json) {
  const ParsedConventions& known = built_in_conventions();
  if (!known.error.empty()) return wrong_use(known.error);
  if (!json) fmt::print("conventions\n");
  size_t width = 0;
  for (const Convention& convention : known.values)
    width = std::max(width, convention.id.size());
  for (const Convention& convention : known.values) {
    if (!json) {
      fmt::print("  {:<{}}  {}\n", convention.id, width,
                 plain(convention.title));
      continue;
    }
    const KernelInfo& declared = convention.declared;
    Json dialect = Json::object();
    std::string lines = dialect_text(declared.dialect);
    for (size_t at = 0; at < lines.size();) {
      const size_t equals = lines.find(" = ", at), end = lines.find('\n', at);
      dialect[lines.substr(at, equals - at)] =
          lines.substr(equals + 3, end - equals - 3);
      at = end + 1;
    }
    fmt::print(
        "{}\n",
        json_text(Json{
            {"type", "convention"},
            {"id", convention.id},
            {"title", plain(convention.title)},
            {"mind", plain(convention.mind)},
            {"sources", convention.sources},
            {"options",
             bit_words(BitKind::kOption, declared.capabilities.options)},
            {"flags", bit_words(BitKind::kFlag, declared.capabilities.flags)},
            {"layouts",
             bit_words(BitKind::kLayout, declared.capabilities.layouts)},
            {"dialect", dialect},
            {"cases", convention.cases}}));
  }
  return kConforms;
}

}  // namespace qkvet::cli
