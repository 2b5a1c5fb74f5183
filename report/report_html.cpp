// SPDX-License-Identifier: Apache-2.0
// One page for a whole run: no network, no other files, useful without scripts.
// The policy in its head enforces this.
#include <fmt/core.h>

#include <algorithm>

#include "report/html_parts.h"
#include "report/lines.h"
#include "report/report_files.h"
#include "report/svg.h"

namespace qkvet::report {
namespace {

constexpr std::string_view kStyle =
#include "report.css.inc"
    ;
constexpr std::string_view kScript =
#include "report.js.inc"
    ;

// Without the licence of the file: the page is the user's.
std::string_view behind_first_line(std::string_view text) {
  return text.substr(text.find('\n') + 1);
}

const char* tone_of(ExitCode code) {
  return code == kConforms ? "good" : code == kNothingChecked ? "open" : "bad";
}

std::string page_head(const RunRecord& record) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri "
      "'none'; form-action 'none'\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>QKVet: {}: {}</title>\n<style>\n{}{}</style>\n</head>\n",
      verdict_word(record.end.exit), xml_escaped(verdict_sentence(record)),
      behind_first_line(kStyle), picture_style());
}

std::string page_header(const RunRecord& record) {
  const int64_t open = std::ssize(record.end.not_judged);
  return fmt::format(
      "<header class=\"verdict {}\">\n<p class=\"word\">{}</p>\n<h1>{}</h1>\n"
      "<p>{}</p>\n<p class=\"quiet\">{}; exit {}{}</p>\n</header>\n",
      tone_of(record.end.exit), verdict_word(record.end.exit),
      xml_escaped(verdict_sentence(record)), xml_escaped(figures_text(record)),
      xml_escaped(plan_words(record)), static_cast<int>(record.end.exit),
      open == 0 ? ""
                : fmt::format("; <a href=\"#coverage\">{} not judged</a>",
                              counted(open, "feature")));
}

}  // namespace

std::string html_code(const std::string& text) {
  return "<code>" + xml_escaped(text) + "</code>";
}

std::string html_command(const std::string& text) {
  return fmt::format(
      "<div class=\"command\"><pre tabindex=\"0\"><code>{}</code></pre>"
      "<button type=\"button\" class=\"copy\" hidden>Copy</button></div>",
      xml_escaped(text));
}

std::string html_law_link(const std::string& law) {
  return fmt::format("<a href=\"#law-{0}\">{0}</a>", xml_escaped(law));
}

std::vector<LawGroup> law_groups(const RunRecord& record) {
  std::vector<LawGroup> groups;
  for (const LawLine& law : record.laws) {
    auto group = std::find_if(
        groups.begin(), groups.end(),
        [&](const LawGroup& one) { return one.subject == law.subject; });
    if (group == groups.end()) group = groups.insert(group, {law.subject, {}});
    group->laws.push_back(law.law);
  }
  return groups;
}

std::string html_report(const RunRecord& record) {
  const bool sets = record.start.rows == RowKind::kSet;
  const struct {
    const char* id;
    const char* head;
    std::string (*content)(const RunRecord& record);
  } sections[] = {
      {"failures", "What fails", html_failures},
      {"grid", sets ? "Sets and kernels" : "Laws and kernels", html_grid},
      {"errors", "Errors and bounds", html_errors},
      {"coverage", "Covered and not judged", html_coverage},
      {"laws", sets ? "What the sets say" : "What the laws say", html_laws},
      {"environment", "Environment", html_environment}};
  std::string links, body;
  for (const auto& section : sections) {
    const std::string content = section.content(record);
    if (content.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>\n", section.id, section.head);
    body += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-head\">\n"
        "<h2 id=\"{0}-head\">{1}</h2>\n{2}</section>\n",
        section.id, section.head, content);
  }
  return page_head(record) +
         "<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n"
         "<svg class=\"none\" aria-hidden=\"true\">" +
         picture_definitions() + "</svg>\n" + page_header(record) +
         "<nav aria-label=\"Parts of the report\">\n" + links +
         "</nav>\n<main id=\"main\">\n" + body + "</main>\n<script>\n" +
         std::string(behind_first_line(kScript)) +
         "</script>\n</body>\n</html>\n";
}

}  // namespace qkvet::report
