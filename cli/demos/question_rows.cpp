// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/question_rows.h"

#include <fmt/core.h>

#include <cmath>

#include "core/base/json.h"
#include "properties/judging/compare.h"
#include "report/json_lines.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

std::vector<size_t> calls_from(const PlanCase& asked, int32_t call) {
  const auto n = static_cast<size_t>(call);
  if (call >= 0 && n < asked.calls.size()) return {asked.calls[n]};
  return asked.calls;
}

std::string ratio_of(double ratio) {
  return std::isinf(ratio) ? "inf" : fmt::format("{:.6g}", ratio);
}

void add_finding(const Finding& finding, QuestionRow& row) {
  row.from = calls_from(*row.asked, finding.planned);
  row.at = finding.where;
  row.actual = finding.actual;
  row.expected = finding.expected;
  row.allowed = finding.allowed;
  if (finding.ratio > 0) row.ratio = ratio_of(finding.ratio);
}

void add_nearest(const Nearest& nearest, QuestionRow& row) {
  const auto text = [&](double x) { return number_text(x, nearest.dtype); };
  row.from = calls_from(*row.asked, nearest.at.call);
  if (nearest.at.element >= 0)  // its place is known
    row.at = element_name(nearest.at.tensor, row.asked->value.shape,
                          nearest.at.element);
  row.actual = text(nearest.actual);
  row.expected = text(nearest.expected);
  row.allowed =
      nearest.two_ways
          ? "a difference of " + number_text(nearest.high, Dtype::kF32)
          : text(nearest.low) + " .. " + text(nearest.high);
}

void add_passed(const Judgement& judgement, QuestionRow& row) {
  if (judgement.compared == 0) {
    row.verdict = "not applicable";
    row.reason = judgement.vacuous > 0
                     ? "the bound is uninformative for these numbers"
                     : "there is no number to compare";
    return;
  }
  row.verdict = "passed";
  row.reason = judgement.warning;
  if (judgement.nearest) add_nearest(*judgement.nearest, row);
  if (judgement.nearest || judgement.worst_ratio > 0)
    row.ratio = ratio_of(judgement.worst_ratio);
}

std::vector<std::string> folders(const std::vector<size_t>& calls) {
  std::vector<std::string> names;
  names.reserve(calls.size());
  for (const size_t call : calls) names.push_back(call_name(call));
  return names;
}

// A cell: text of a kernel cannot end it, or the row.
std::string cell(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string cell(const std::vector<size_t>& calls) {
  return joined(folders(calls), ",");
}

}  // namespace

QuestionRow question_row(const PlanCase& asked, const Judgement& judgement,
                         bool settled) {
  QuestionRow row;
  row.asked = &asked;
  row.reason = judgement.reason;
  switch (judgement.verdict) {
    case Verdict::kPassed:
      add_passed(judgement, row);
      break;
    case Verdict::kFailed:
      row.verdict = "failed";
      if (judgement.finding) add_finding(*judgement.finding, row);
      break;
    case Verdict::kUnsupported:
      row.verdict = settled ? "not applicable" : "refused";
      break;
    default:
      row.verdict = settled ? "not applicable" : "gave up";
  }
  return row;
}

QuestionRow unanswered_row(const PlanCase& asked, const std::string& missing) {
  QuestionRow row;
  row.asked = &asked;
  row.verdict = "not answered";
  row.reason = missing;
  return row;
}

std::string question_table(std::span<const QuestionRow> rows) {
  std::string text =
      "law\tnumber\tcalls\tverdict\terror_over_bound\tfrom\tat\tactual\t"
      "expected\tallowed\tcase\treason\n";
  for (const QuestionRow& row : rows)
    text += fmt::format(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n", row.asked->law->id,
        row.asked->number, cell(row.asked->calls), row.verdict, row.ratio,
        cell(row.from), cell(row.at), cell(row.actual), cell(row.expected),
        cell(row.allowed), to_string(row.asked->value), cell(row.reason));
  return text;
}

std::string question_json(std::span<const QuestionRow> rows) {
  std::string text;
  for (const QuestionRow& row : rows) {
    Json json{{"schema", kSchema},
              {"type", "question"},
              {"law", row.asked->law->id},
              {"number", row.asked->number},
              {"case", to_string(row.asked->value)},
              {"calls", folders(row.asked->calls)},
              {"verdict", row.verdict}};
    if (!row.ratio.empty())
      json["error_over_bound"] =
          row.ratio == "inf" ? Json("inf") : json_of(row.ratio);
    if (!row.from.empty()) json["from"] = folders(row.from);
    for (const auto& [name, value] :
         {std::pair{"at", &row.at}, std::pair{"actual", &row.actual},
          std::pair{"expected", &row.expected},
          std::pair{"allowed", &row.allowed}, std::pair{"reason", &row.reason}})
      if (!value->empty()) json[name] = *value;
    text += json_text(json) + "\n";
  }
  return text;
}

}  // namespace qkvet::cli
