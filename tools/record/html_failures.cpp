// SPDX-License-Identifier: Apache-2.0
// Failures on the page of a run.
#include <fmt/core.h>

#include <algorithm>

#include "tools/base/lines.h"
#include "tools/record/html_parts.h"
#include "tools/record/report_files.h"

namespace qkvet::tools {
namespace {

// A row of a list of terms; "" where there is nothing to say.
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

std::string actual_html(const Json& failure) {
  const std::string actual = text_of(failure, "actual");
  if (actual.empty()) return "";
  const double ratio = number_of(failure, "error_over_bound");
  return html_code(actual) +
         (ratio > 0
              ? fmt::format(" <span class=\"quiet\">error/bound {}</span>",
                            ratio_text(ratio))
              : "");
}

std::string shrunk_html(const Json& failure) {
  const std::string found = text_of(failure, "found");
  if (found.empty() || found == text_of(failure, "case")) return "";
  return fmt::format("from {} in {}", html_code(found),
                     counted(count_of(failure, "shrink_steps"), "step"));
}

std::string cause_html(const Json& failure) {
  const Json& diagnosis = part_of(failure, "diagnosis");
  if (!diagnosis.is_object()) return "";
  const std::string text = text_of(diagnosis, "text");
  if (text.empty())
    return fmt::format(
        "unknown: no known fault does what this kernel does in {}",
        counted(count_of(diagnosis, "probes"), "probe"));
  // What all wrong numbers are, and no known fault.
  if (text_of(diagnosis, "certainty") == "unknown")
    return fmt::format(
        "<strong>{}</strong> <span class=\"quiet\">likely; no known fault does "
        "it</span>",
        xml_escaped(text));
  std::string out = fmt::format(
      "<strong>{}</strong> <span class=\"quiet\">{}, {}: {} of {} failing "
      "probes as predicted",
      xml_escaped(text), html_code(text_of(diagnosis, "cause")),
      xml_escaped(text_of(diagnosis, "certainty")),
      count_of(diagnosis, "foretold"), count_of(diagnosis, "failing"));
  const auto possible = texts_of(diagnosis, "also_possible");
  if (!possible.empty())
    out += "; not told apart from " + xml_escaped(joined(possible));
  return out + "</span>";
}

std::string place_html(const RunRecord& record, const Json& result) {
  const KernelPlace place = place_of(record, result);
  if (place.file.empty()) return "";
  return html_code(place.line > 0 ? fmt::format("{}:{}", place.file, place.line)
                                  : place.file);
}

std::string picture_html(const Json& failure) {
  const auto lines = texts_of(failure, "picture");
  if (lines.empty()) return "";
  return "<details><summary>The case in numbers</summary>\n<pre "
         "tabindex=\"0\">" +
         xml_escaped(joined(lines, "\n")) + "</pre></details>\n";
}

std::string also_html(const Reported& one) {
  if (one.also.empty()) return "";
  std::string out = fmt::format(
      "<details><summary>{} of this kernel for the same "
      "cause</summary>\n<ul>\n",
      counted(std::ssize(one.also), "more failure"));
  for (const auto& [result, failure] : one.also)
    out += fmt::format("<li>{} {}{}</li>\n",
                       html_law_link(text_of(*result, "law")),
                       html_code(text_of(*failure, "case")),
                       html_command(text_of(*failure, "again")));
  return out + "</ul></details>\n";
}

std::string failure_article(const RunRecord& record, const Reported& one,
                            size_t number) {
  const Json& failure = *one.failure;
  const std::string law = text_of(*one.result, "law");
  const Json& diagnosis = part_of(failure, "diagnosis");
  std::string out = fmt::format(
      "<article class=\"failure\" aria-labelledby=\"failure-{0}\">\n"
      "<h3 id=\"failure-{0}\"><span class=\"mark bad\">{1}</span> {2} "
      "<span class=\"kernel\">{3}</span></h3>\n<p class=\"sentence\">{4}</p>\n"
      "<dl>\n",
      number,
      std::string_view(state_of(*one.result)) == "crash" ? "CRASH" : "FAIL",
      html_law_link(law), xml_escaped(text_of(*one.result, "kernel")),
      xml_escaped(text_of(record.law(law), "sentence")));
  // The answer first, the evidence below.
  out += text_term("unsteady", text_of(failure, "unsteady"));
  out += term("cause", cause_html(failure));
  out += text_term("fix", text_of(diagnosis, "fix"));
  out += term("again", html_command(text_of(failure, "again")));
  out += code_term("case", text_of(failure, "case"));
  out += term("shrunk", shrunk_html(failure));
  out += code_term("at", text_of(failure, "at"));
  out += code_term("expected", text_of(failure, "expected"));
  out += code_term("allowed", text_of(failure, "allowed"));
  out += term("actual", actual_html(failure));
  out += text_term("looks like", text_of(failure, "looks"));
  out += text_term("whose", text_of(failure, "whose"));
  out += text_term("fails", text_of(part_of(diagnosis, "where"), "text"));
  out += text_term("stage", text_of(part_of(diagnosis, "stage"), "text"));
  out += text_term("instead", text_of(part_of(diagnosis, "instead"), "text"));
  out += text_term("hidden", text_of(diagnosis, "hidden"));
  out += text_term("dialect", text_of(failure, "other_dialect"));
  out += term("source", place_html(record, *one.result));
  out += code_term("printed", text_of(failure, "printed"));
  return out + "</dl>\n" + html_heat_maps(failure) + picture_html(failure) +
         also_html(one) + "</article>\n";
}

// Failing results that have no failing case: a known failure that is gone.
std::string problems_html(const RunRecord& record) {
  std::string out;
  for (const Json& result : record.results)
    if (is_bad(state_of(result)))
      for (const std::string& problem :
           texts_of(part_of(result, "known"), "problems"))
        out += "<li>" + xml_escaped(problem) + "</li>\n";
  return out.empty() ? "" : "<ul class=\"problems\">\n" + out + "</ul>\n";
}

}  // namespace

std::string html_failures(const RunRecord& record) {
  // In full, as far as anybody reads.
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
                       xml_escaped(text_of(*failures[i].result, "kernel")),
                       html_law_link(text_of(*failures[i].result, "law")),
                       html_command(text_of(*failures[i].failure, "again")));
  return out + "</ul></details>\n";
}

}  // namespace qkvet::tools
