// SPDX-License-Identifier: Apache-2.0
// Failures on the page of a run.
#include <fmt/core.h>

#include <algorithm>

#include "report/html_parts.h"
#include "report/lines.h"
#include "report/report_files.h"

namespace qkvet::report {
namespace {

// A row of a list of terms; "" if there is no text.
std::string term(const char* name, const std::string& html) {
  return html.empty()
             ? ""
             : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, html);
}

std::string text_term(const char* name, const std::string& text) {
  return term(name, xml_escaped(text));
}

std::string code_term(const char* name, const std::string& text) {
  return text.empty() ? "" : term(name, html_code(text));
}

std::string actual_html(const FailureLine& failure) {
  if (failure.actual.empty()) return "";
  const double ratio = failure.error_over_bound;
  return html_code(failure.actual) +
         (ratio > 0
              ? fmt::format(" <span class=\"quiet\">error/bound {}</span>",
                            ratio_text(ratio))
              : "");
}

std::string shrunk_html(const FailureLine& failure) {
  if (failure.found == failure.value) return "";
  return fmt::format("from {} in {}", html_code(failure.found),
                     counted(failure.shrink_steps, "step"));
}

std::string cause_html(const FailureLine& failure) {
  if (!failure.diagnosis) return "";
  const DiagnosisFound& cause = *failure.diagnosis;
  if (cause.text.empty())
    return fmt::format(
        "unknown: no known fault does what this kernel does in {}",
        counted(cause.probes, "probe"));
  // A description of all wrong numbers, but no known fault.
  if (cause.certainty == Certainty::kUnknown)
    return fmt::format(
        "<strong>{}</strong> <span class=\"quiet\">likely; no known fault does "
        "it</span>",
        xml_escaped(cause.text));
  std::string out = fmt::format(
      "<strong>{}</strong> <span class=\"quiet\">{}, {}: {} of {} failing "
      "probes as predicted",
      xml_escaped(cause.text), html_code(cause.cause), word_of(cause.certainty),
      cause.foretold, cause.failing);
  if (!cause.also_possible.empty())
    out += "; not told apart from " + xml_escaped(joined(cause.also_possible));
  return out + "</span>";
}

std::string place_html(const RunRecord& record, const ResultLine& result) {
  const SourcePlace place = place_of(record, result);
  if (place.file.empty()) return "";
  return html_code(place.line > 0 ? fmt::format("{}:{}", place.file, place.line)
                                  : place.file);
}

std::string picture_html(const FailureLine& failure) {
  if (failure.picture.empty()) return "";
  return "<details><summary>The case in numbers</summary>\n<pre "
         "tabindex=\"0\">" +
         xml_escaped(joined(failure.picture, "\n")) + "</pre></details>\n";
}

std::string also_html(const Reported& one) {
  if (one.also.empty()) return "";
  std::string out = fmt::format(
      "<details><summary>{} of this kernel for the same "
      "cause</summary>\n<ul>\n",
      counted(std::ssize(one.also), "more failure"));
  for (const auto& [result, failure] : one.also)
    out += fmt::format("<li>{} {}{}</li>\n", html_law_link(result->law),
                       html_code(failure->value), html_command(failure->again));
  return out + "</ul></details>\n";
}

std::string failure_article(const RunRecord& record, const Reported& one,
                            size_t number) {
  const FailureLine& failure = *one.failure;
  const std::string& law = one.result->law;
  const DiagnosisFound& cause = failure.cause();
  std::string out = fmt::format(
      "<article class=\"failure\" aria-labelledby=\"failure-{0}\">\n"
      "<h3 id=\"failure-{0}\"><span class=\"mark bad\">{1}</span> {2} "
      "<span class=\"kernel\">{3}</span></h3>\n<p class=\"sentence\">{4}</p>\n"
      "<dl>\n",
      number, one.result->state() == RowState::kCrash ? "CRASH" : "FAIL",
      html_law_link(law), xml_escaped(one.result->kernel),
      xml_escaped(record.law(law)->sentence));
  // The answer first, then the evidence.
  out += text_term("unsteady", failure.unsteady);
  out += term("cause", cause_html(failure));
  out += text_term("fix", cause.fix);
  out += term("again", html_command(failure.again));
  out += code_term("case", failure.value);
  out += term("shrunk", shrunk_html(failure));
  out += code_term("at", failure.at);
  out += code_term("expected", failure.expected);
  out += code_term("allowed", failure.allowed);
  out += term("actual", actual_html(failure));
  out += text_term("looks like", failure.looks);
  out += text_term("whose", failure.whose);
  out += text_term("fails", cause.where ? cause.where->text : "");
  out += text_term("stage", cause.stage ? cause.stage->text : "");
  out += text_term("instead", cause.instead ? cause.instead->text : "");
  out += text_term("hidden", cause.hidden);
  out += text_term("dialect", failure.other_dialect);
  out += term("source", place_html(record, *one.result));
  out += code_term("printed", failure.printed);
  return out + "</dl>\n" + html_heat_maps(failure) + picture_html(failure) +
         also_html(one) + "</article>\n";
}

// Failing results without a failing case: a known failure that is gone.
std::string problems_html(const RunRecord& record) {
  std::string out;
  for (const ResultLine& result : record.results)
    if (is_bad(result.state()) && result.known)
      for (const std::string& problem : result.known->problems)
        out += "<li>" + xml_escaped(problem) + "</li>\n";
  return out.empty() ? "" : "<ul class=\"problems\">\n" + out + "</ul>\n";
}

}  // namespace

std::string html_failures(const RunRecord& record) {
  // Articles in full; more would be too many to read.
  constexpr size_t kMostArticles = 60;
  const std::vector<Reported> failures = reported_failures(record);
  std::string out = problems_html(record);
  for (size_t i = 0; i < std::min(kMostArticles, failures.size()); ++i)
    out += failure_article(record, failures[i], i + 1);
  if (failures.size() <= kMostArticles) return out;
  out += fmt::format("<details><summary>{} more</summary>\n<ul>\n",
                     failures.size() - kMostArticles);
  for (size_t i = kMostArticles; i < failures.size(); ++i)
    out += fmt::format("<li>{} {} {}</li>\n",
                       xml_escaped(failures[i].result->kernel),
                       html_law_link(failures[i].result->law),
                       html_command(failures[i].failure->again));
  return out + "</ul></details>\n";
}

}  // namespace qkvet::report
