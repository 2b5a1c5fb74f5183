// SPDX-License-Identifier: Apache-2.0
// Laws by kernels, and the texts of the laws.
#include <fmt/core.h>

#include <algorithm>

#include "report/html_parts.h"
#include "report/lines.h"

namespace qkvet::report {
namespace {

// A state by sign and word, so that it does not depend on colour.
struct StateSign {
  RowState state;
  const char* style;
  const char* sign;
  const char* word;
};
constexpr StateSign kStateSigns[kRowStates] = {
    {RowState::kPassed, "passed", "✓", "passed"},
    {RowState::kFailed, "failed", "✕", "FAILED"},
    {RowState::kCrash, "crash", "☠", "CRASHED"},
    {RowState::kKnown, "known", "K", "fails as is known"},
    {RowState::kOpen, "open", "?", "open"},
    {RowState::kUnsupported, "unsupported", "–", "unsupported"},
    {RowState::kUndeclared, "undeclared", "·", "not declared"}};

const StateSign& sign_of(const ResultLine& result) {
  return kStateSigns[static_cast<size_t>(result.state())];
}

std::string legend(const RunRecord& record) {
  std::string out;
  const RecordCounts counts = counts_of(record.results_of());
  for (const StateSign& row : kStateSigns) {
    if (counts.of(row.state) > 0)
      out += fmt::format(
          "<span><span class=\"sign {}\" aria-hidden=\"true\">{}</span> "
          "{}</span>\n",
          row.style, row.sign, row.word);
  }
  return "<p class=\"legend\">" + out + "</p>\n";
}

std::string sign_cell(const ResultLine* result) {
  if (result == nullptr) return "<td></td>";
  const StateSign& sign = sign_of(*result);
  return fmt::format(
      "<td class=\"{0}\"><span class=\"sign {0}\" "
      "aria-hidden=\"true\">{1}</span><span class=\"spoken\">{2}</span></td>",
      sign.style, sign.sign, sign.word);
}

// The figures next to the verdict, if there is only one kernel.
std::string figure_cells(const ResultLine* result) {
  if (result == nullptr) return "<td></td><td></td><td></td><td></td>";
  const StateSign& sign = sign_of(*result);
  const Tally& counts = result->counts;
  // For a law that passed, the text of single cases is no reason.
  const std::string reason =
      sign.state == RowState::kPassed ? "" : counts.reason.text;
  return fmt::format(
      "<td class=\"wide {0}\"><span class=\"sign {0}\" aria-hidden=\"true\">"
      "{1}</span> {2}{3}</td><td class=\"number\">{4}</td><td "
      "class=\"number\">{5}</td><td class=\"number\">{6:.2f} s</td>",
      sign.style, sign.sign, sign.word,
      reason.empty()
          ? ""
          : ": <span class=\"quiet\">" + xml_escaped(reason) + "</span>",
      grouped(counts.checked),
      counts.worst_ratio > 0 ? worst_text(counts.worst_ratio) : "–",
      counts.seconds);
}

std::string head_cells(const RunRecord& record) {
  if (record.kernels.size() == 1)
    return "<th scope=\"col\">verdict</th><th scope=\"col\">checked cases</th>"
           "<th scope=\"col\">error/bound</th><th scope=\"col\">time</th>";
  std::string out;
  for (const KernelLine& kernel : record.kernels)
    out +=
        fmt::format("<th scope=\"col\" class=\"turned\"><span>{}</span></th>",
                    xml_escaped(kernel.kernel));
  return out;
}

bool fails_law(const RunRecord& record, const std::string& law) {
  return std::any_of(record.results.begin(), record.results.end(),
                     [&](const auto& result) {
                       return result.law == law && is_bad(result.state());
                     });
}

std::string law_row(const RunRecord& record, const std::string& law) {
  std::string out =
      fmt::format("<tr><th scope=\"row\">{}</th>", html_law_link(law));
  for (const KernelLine& kernel : record.kernels) {
    const ResultLine* result = record.result(kernel.kernel, law);
    out +=
        record.kernels.size() == 1 ? figure_cells(result) : sign_cell(result);
  }
  return out + "</tr>\n";
}

// A table of some laws; "" for none.
std::string laws_table(const RunRecord& record, std::string_view label,
                       const std::vector<std::string>& laws) {
  if (laws.empty()) return "";
  std::string rows;
  for (const std::string& law : laws) rows += law_row(record, law);
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}s and kernels: {1}\">\n<table class=\"grid\">\n"
      "<thead><tr><th scope=\"col\">{0}</th>{2}</tr></thead>\n<tbody>\n{3}"
      "</tbody>\n</table></div>\n",
      row_word(record), xml_escaped(label), head_cells(record), rows);
}

// "17 passed, 2 open": the results of these laws.
std::string states_text(const RunRecord& record,
                        const std::vector<std::string>& laws) {
  std::string out;
  for (const StateSign& row : kStateSigns) {
    int64_t count = 0;
    for (const ResultLine& result : record.results)
      count += result.state() == row.state &&
               std::find(laws.begin(), laws.end(), result.law) != laws.end();
    if (count > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", grouped(count),
                         row.word);
  }
  return out;
}

// The number of asked laws of the run, as a bar.
std::string asked_bar(const RunRecord& record) {
  const int64_t asked = laws_asked(record), all = std::ssize(record.laws);
  return fmt::format(
      "<p>{} of {} asked</p>\n<div class=\"share\" aria-hidden=\"true\">"
      "<span style=\"width:{}%\"></span></div>\n",
      grouped(asked), counted(all, row_word(record)),
      all == 0 ? 0 : 100 * asked / all);
}

}  // namespace

// Rows that fail first; the others are folded, subject by subject.
std::string html_grid(const RunRecord& record) {
  std::vector<std::string> failing;
  std::string folded, unasked;
  for (const LawGroup& group : law_groups(record)) {
    std::vector<std::string> others;
    for (const std::string& law : group.laws)
      if (fails_law(record, law))
        failing.push_back(law);
      else if (is_asked(record, law))
        others.push_back(law);
      else
        unasked += (unasked.empty() ? "" : ", ") + html_law_link(law);
    if (others.empty()) continue;
    const std::string name = group.subject.empty()
                                 ? std::string(row_word(record)) + "s"
                                 : group.subject;
    folded += fmt::format("<details><summary>{}: {}</summary>\n{}</details>\n",
                          xml_escaped(name), states_text(record, others),
                          laws_table(record, name, others));
  }
  std::string out = asked_bar(record) + legend(record) +
                    laws_table(record, "failing", failing) + folded;
  if (!unasked.empty())
    out += fmt::format(
        "<details><summary>Those about what no kernel here "
        "declares</summary>\n<p>{}</p></details>\n",
        unasked);
  return out;
}

std::string html_laws(const RunRecord& record) {
  std::string out = fmt::format(
      "<details id=\"all-laws\"><summary>All {}s of this "
      "run</summary>\n<dl class=\"laws\">\n",
      row_word(record));
  for (const LawLine& law : record.laws)
    out += fmt::format(
        "<div id=\"law-{0}\"><dt>{0}</dt><dd>{1}<br><code>{2}</code></dd>"
        "</div>\n",
        xml_escaped(law.law), xml_escaped(law.sentence),
        xml_escaped(law.formula));
  return out + "</dl></details>\n";
}

}  // namespace qkvet::report
