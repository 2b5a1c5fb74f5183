// SPDX-License-Identifier: Apache-2.0
// What a run rests on: what was covered, what was not judged and why, what was
// assumed, where it ran.
#include <fmt/core.h>

#include <algorithm>

#include "tools/base/lines.h"
#include "tools/record/html_parts.h"
#include "tools/record/result_counts.h"

namespace qkvet::tools {
namespace {

std::string html_list(const std::vector<std::string>& lines,
                      const char* kind = "") {
  std::string out = fmt::format("<ul class=\"{}\">\n", kind);
  for (const std::string& line : lines)
    out += "<li>" + xml_escaped(line) + "</li>\n";
  return out + "</ul>\n";
}

// A head and a list; "" where the list is empty.
std::string part(const char* head, const std::vector<std::string>& lines,
                 const char* kind = "") {
  return lines.empty()
             ? ""
             : fmt::format("<h4>{}</h4>\n{}", head, html_list(lines, kind));
}

std::vector<std::string> assumed_lines(const Json& kernel) {
  std::vector<std::string> out;
  if (const Json& assumed = part_of(kernel, "assumed"); assumed.is_array())
    for (const Json& one : assumed)
      out.push_back(fmt::format(".{} = {} (found by probes)",
                                text_of(one, "field"), text_of(one, "value")));
  if (part_of(kernel, "precision_declared").is_boolean() &&
      !is_set(kernel, "precision_declared"))
    out.push_back("precision generic");
  return out;
}

// Results of a kernel without a verdict, by their reason.
std::vector<std::string> open_lines(const RunRecord& record,
                                    const std::string& kernel) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const Json& result : record.results) {
    const std::string_view state = state_of(result);
    if (text_of(result, "kernel") != kernel ||
        (state != "open" && state != "unsupported" && state != "undeclared"))
      continue;
    const std::string why = fmt::format("{}: {}", text_of(result, "verdict"),
                                        text_of(result, "reason"));
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto& one) { return one.first == why; });
    if (group == groups.end()) group = groups.insert(groups.end(), {why, {}});
    group->second.push_back(text_of(result, "law"));
  }
  std::vector<std::string> out;
  for (const auto& [why, laws] : groups)
    out.push_back(why + ": " + joined(laws));
  return out;
}

// The places that hint at a path that no kernel declares.
std::vector<std::string> hint_lines(const Json& kernel) {
  std::vector<std::string> out;
  if (const Json& hints = part_of(kernel, "hints"); hints.is_array())
    for (const Json& hint : hints)
      out.push_back(fmt::format("{}, from {}: {}", text_of(hint, "path"),
                                text_of(hint, "from"),
                                counted(count_of(hint, "calls"), "call")));
  return out;
}

std::vector<std::string> lines_of_results(const RunRecord& record,
                                          const std::string& kernel,
                                          std::string (*line)(const Json&)) {
  std::vector<std::string> out;
  for (const Json& result : record.results)
    if (text_of(result, "kernel") == kernel)
      if (std::string text = line(result); !text.empty())
        out.push_back(std::move(text));
  return out;
}

std::string warning_line(const Json& result) {
  if (count_of(result, "warned") == 0) return "";
  return fmt::format("{}: {}; the first: {}", text_of(result, "law"),
                     counted(count_of(result, "warned"), "case"),
                     text_of(result, "warning"));
}

std::string refused_line(const Json& result) {
  const int64_t cases = count_of(result, "unsupported");
  if (cases == 0 || text_of(result, "verdict") == "unsupported") return "";
  return fmt::format("{}: {}; the first: {}", text_of(result, "law"),
                     counted(cases, "case"), text_of(result, "refusal"));
}

// How many pairs of settings met, and those that did not, folded away.
std::string pairs_part(const properties::MetPairs& pairs) {
  if (pairs.settings.empty()) return "";
  std::vector<std::string> never;
  for (const auto& [one, other] : pairs.never())
    never.push_back(one + " with " + other);
  std::string out = fmt::format("<h4>Pairs of settings</h4>\n<p>{}.</p>\n",
                                pairs_met_text(pairs));
  if (never.empty()) return out;
  return out + fmt::format(
                   "<details><summary>{} that never met</summary>\n{}"
                   "</details>\n",
                   counted(std::ssize(never), "pair"),
                   html_list(never, "chips"));
}

std::string kernel_coverage(const RunRecord& record, const Json& kernel,
                            bool open) {
  const std::string name = text_of(kernel, "kernel");
  const RecordCounts counts = counts_of(record, name);
  std::vector<std::string> looser = {text_of(kernel, "looser")};
  if (looser[0].empty()) looser.clear();
  std::string out = fmt::format(
      "<details{}><summary>{}: {} passed, {} failed, {}</summary>\n",
      open ? " open" : "", xml_escaped(name), counts.passed, counts.failed,
      counted(counts.checked, "checked case"));
  if (const std::string what = text_of(kernel, "description"); !what.empty())
    out += "<p>" + xml_escaped(what) + "</p>\n";
  out += part("Calls with", texts_of(kernel, "drawn"), "chips");
  out += part("Declared, and in no answered call",
              texts_of(kernel, "never_drawn"), "chips");
  out += pairs_part(met_pairs_of(part_of(kernel, "pairs")));
  out += part("Looked near", hint_lines(kernel));
  out += part("Declared, and mostly refused", texts_of(kernel, "hollow"));
  out += part("Assumed", assumed_lines(kernel));
  out += part("Looser than generic", looser);
  out += part("Warnings", lines_of_results(record, name, warning_line));
  out += part("Refused cases", lines_of_results(record, name, refused_line));
  out += part("Laws without a verdict", open_lines(record, name));
  return out + "</details>\n";
}

std::string fact(const char* name, const std::string& text) {
  return text.empty() ? ""
                      : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name,
                                    xml_escaped(text));
}

}  // namespace

std::string html_coverage(const RunRecord& record) {
  std::string out;
  out += part("Not judged in this run", texts_of(record.end, "not_judged"));
  out += part("Notes", texts_of(record.end, "notes"));
  for (const Json& kernel : record.kernels)
    out += kernel_coverage(record, kernel, record.kernels.size() == 1);
  return out;
}

std::string html_environment(const RunRecord& record) {
  const Json& environment = part_of(record.start, "environment");
  std::string out = "<dl>\n";
  out += fact("QKVet", text_of(environment, "qkvet"));
  out += fact("plan", plan_words(record));
  out += fact("seed", std::to_string(count_of(record.start, "seed")));
  out += fact("threads", std::to_string(count_of(record.start, "jobs")));
  out += fact("time",
              fmt::format("{:.1f} s", number_of(record.end, "wall_seconds")));
  out += fact("began", text_of(environment, "began"));
  out += fact("CPU", text_of(environment, "cpu"));
  if (const int64_t cores = count_of(environment, "cores"); cores > 0)
    out += fact("cores", std::to_string(cores));
  out += fact("system", text_of(environment, "system"));
  out += fact("machine", text_of(environment, "machine"));
  out += fact("compiler of QKVet", text_of(environment, "compiler"));
  for (const Json& kernel : record.kernels)
    if (const std::string library = text_of(kernel, "library");
        !library.empty())
      out += fact("library", text_of(kernel, "kernel") + ": " + library);
  return out + "</dl>\n";
}

}  // namespace qkvet::tools
