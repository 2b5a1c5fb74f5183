// SPDX-License-Identifier: Apache-2.0
// The findings, as lines to paste, with the evidence in comments.
#include <fmt/core.h>

#include <algorithm>

#include "cli/identify/identify.h"
#include "cli/reproduce/convention_c.h"
#include "core/base/json.h"
#include "core/capability/declaration.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

constexpr size_t kTextWidth = kLineWidth;

struct PartRow {
  Part part;
  const char* word;
  const char* title;
};
constexpr PartRow kParts[] = {
    {Part::kCapabilities, "capabilities",
     "capabilities: the lines of a convention, words of qkvet.kernel() in "
     "Python"},
    {Part::kDialect, "dialect", "dialect: a file for --dialect"},
    {Part::kPrecision, "precision", "precision: a file for --precision"}};

const char* part_word(Part part) {
  for (const PartRow& row : kParts)
    if (row.part == part) return row.word;
  return "";
}

// A comment in lines of limited width, after `lead`.
std::string comment(const std::string& lead, const std::string& text) {
  std::string out = "#   " + lead;
  const size_t indent = lead.empty() ? 4 : 24;
  out.resize(std::max(indent, out.size() + (lead.empty() ? 0 : 1)), ' ');
  size_t at = out.size();
  bool is_first = true;
  for (size_t from = 0; from < text.size();) {
    size_t end = text.find(' ', from);
    if (end == std::string::npos) end = text.size();
    if (at + 1 + end - from > kTextWidth && !is_first) {
      out += "\n#" + std::string(indent - 1, ' ');
      at = indent;
      is_first = true;
    }
    out += (is_first ? "" : " ") + text.substr(from, end - from);
    at += end - from + (is_first ? 0 : 1);
    is_first = false;
    from = end + 1;
  }
  return out + "\n";
}

const char* why_text(NotFound::Why why) {
  switch (why) {
    case NotFound::Why::kRefused:
      return "refused";
    case NotFound::Why::kWrong:
      return "not as it is meant";
    case NotFound::Why::kUsual:
      return "found, and nothing to declare";
    default:
      return "not told";
  }
}

std::string part_text(const Identified& found, const PartRow& row) {
  const auto lines = lines_of(found, row.part);
  if (lines.empty()) return "";
  std::string text = fmt::format("\n# {}\n", row.title);
  for (const auto& [field, value] : lines) {
    text += fmt::format("{} = {}\n", field, value);
    const bool is_list =
        std::count_if(found.fields.begin(), found.fields.end(),
                      [&, &name = field](const FoundField& one) {
                        return one.part == row.part && one.field == name;
                      }) > 1;
    for (const FoundField& one : found.fields)
      if (one.part == row.part && one.field == field)
        text += comment(is_list ? one.value : "", one.evidence);
  }
  return text;
}

std::string verdict_text(const Identified& found) {
  if (!found.error.empty()) return "not identified: " + found.error;
  if (!found.is_attention)
    return "not attention: " + found.not_attention + "; nothing is declared";
  if (!found.fails.empty())
    return "not identified: what was found does not hold: " + found.fails;
  const auto wrong = std::count_if(
      found.rest.begin(), found.rest.end(),
      [](const NotFound& one) { return one.why == NotFound::Why::kWrong; });
  return fmt::format(
      "identified in {} calls; within the bounds of what is declared below in "
      "{} of {} cases{}",
      grouped(found.calls), found.checked, found.checked,
      wrong == 0 ? ""
                 : fmt::format(". {} that it takes and answers otherwise: a "
                               "declaration leaves that out, or it is wrong",
                               counted(wrong, "thing")));
}

}  // namespace

std::string identified_file(const Identified& found, Part part) {
  std::string text;
  for (const auto& [field, value] : lines_of(found, part))
    text += field + " = " + value + "\n";
  return text;
}

std::string identified_text(const Identified& found) {
  std::string text = comment("", verdict_text(found));
  text = "# " + found.kernel + "\n" + text;
  if (!found.is_attention) return text;
  for (const PartRow& row : kParts) text += part_text(found, row);
  for (const NotFound::Why why :
       {NotFound::Why::kWrong, NotFound::Why::kUsual, NotFound::Why::kNotTold,
        NotFound::Why::kRefused}) {
    std::string rest;
    for (const NotFound& one : found.rest)
      if (one.why == why) rest += comment(one.what, one.evidence);
    if (!rest.empty()) text += fmt::format("\n# {}\n", why_text(why)) + rest;
  }
  return text;
}

std::string identified_c(const Identified& found) {
  if (!found.is_attention) return "";
  Convention convention;
  for (const auto& [field, value] : lines_of(found, Part::kCapabilities))
    declare(field, value, convention);
  parse_dialect("", identified_file(found, Part::kDialect),
                convention.declared.dialect);
  return convention_c(convention);
}

std::string identified_json(const Identified& found) {
  Json fields = Json::array(), rest = Json::array();
  for (const FoundField& one : found.fields)
    fields.push_back(Json{{"part", part_word(one.part)},
                          {"field", one.field},
                          {"value", one.value},
                          {"evidence", one.evidence}});
  for (const NotFound& one : found.rest)
    rest.push_back(Json{{"what", one.what},
                        {"why", why_text(one.why)},
                        {"evidence", one.evidence}});
  return json_text(Json{{"type", "identified"},
                        {"kernel", found.kernel},
                        {"identified", found.holds()},
                        {"verdict", verdict_text(found)},
                        {"calls", found.calls},
                        {"checked", found.checked},
                        {"fields", fields},
                        {"not_declared", rest},
                        {"exit", static_cast<int>(found.exit_code())}}) +
         "\n";
}

}  // namespace qkvet::cli
