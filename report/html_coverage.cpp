// SPDX-License-Identifier: Apache-2.0
// The basis of a run: coverage, subjects that were not judged and why,
// assumptions, and the machine.
#include <fmt/core.h>

#include <algorithm>

#include "report/html_parts.h"
#include "report/lines.h"
#include "report/pairs_text.h"

namespace qkvet::report {
namespace {

std::string html_list(const Texts& lines, const char* kind = "") {
  std::string out = fmt::format("<ul class=\"{}\">\n", kind);
  for (const std::string& line : lines)
    out += "<li>" + xml_escaped(line) + "</li>\n";
  return out + "</ul>\n";
}

// A heading and a list; "" if the list is empty.
std::string part(const char* head, const Texts& lines, const char* kind = "") {
  return lines.empty()
             ? ""
             : fmt::format("<h4>{}</h4>\n{}", head, html_list(lines, kind));
}

Texts drawn_lines(const KernelLine& kernel) {
  Texts out;
  for (const DrawnCalls& one : kernel.drawn)
    out.push_back(fmt::format("{} {}", one.what, one.calls));
  return out;
}

Texts assumed_lines(const KernelLine& kernel) {
  Texts out;
  for (const AssumedField& one : kernel.assumed)
    out.push_back(
        fmt::format(".{} = {} (found by probes)", one.field, one.value));
  if (!kernel.precision_declared) out.emplace_back("precision generic");
  return out;
}

// Results of a kernel without a verdict, by their reason.
Texts open_lines(const RunRecord& record, const KernelLine& kernel) {
  std::vector<std::pair<std::string, Texts>> groups;
  for (const ResultLine* result : record.results_of(kernel)) {
    const RowState state = result->state();
    if (state != RowState::kOpen && state != RowState::kUnsupported &&
        state != RowState::kUndeclared)
      continue;
    const std::string why = fmt::format("{}: {}", word_of(result->verdict),
                                        result->counts.reason.text);
    auto group =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto& one) { return one.first == why; });
    if (group == groups.end()) group = groups.insert(groups.end(), {why, {}});
    group->second.push_back(result->law);
  }
  Texts out;
  for (const auto& [why, laws] : groups)
    out.push_back(why + ": " + joined(laws));
  return out;
}

// The places that hint at a path that no kernel declares.
Texts hint_lines(const KernelLine& kernel) {
  Texts out;
  for (const NearHint& hint : kernel.hints)
    out.push_back(fmt::format("{}, from {}: {}", hint.path, hint.from,
                              counted(hint.calls, "call")));
  return out;
}

// The number of cases of a law, unless it is 0.
void add_cases(const ResultLine& result, int64_t cases,
               const std::string& first, Texts& lines) {
  if (cases > 0)
    lines.push_back(fmt::format("{}: {}; the first: {}", result.law,
                                counted(cases, "case"), first));
}

// The number of pairs of settings that met, and the missing ones, folded away.
std::string pairs_part(const properties::MetPairs& pairs) {
  if (pairs.settings.empty()) return "";
  Texts never;
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

std::string kernel_coverage(const RunRecord& record, const KernelLine& kernel,
                            bool open) {
  const std::string& name = kernel.kernel;
  const RecordCounts counts = counts_of(record.results_of(kernel));
  Texts looser, warnings, refused;
  if (!kernel.looser.empty()) looser = {kernel.looser};
  for (const ResultLine* result : record.results_of(kernel)) {
    const Tally& tally = result->counts;
    add_cases(*result, tally.warned, tally.warning.text, warnings);
    if (result->verdict != RowVerdict::kUnsupported)
      add_cases(*result, tally.unsupported, tally.refusal.text, refused);
  }
  std::string out = fmt::format(
      "<details{}><summary>{}: {} passed, {} failed, {}</summary>\n",
      open ? " open" : "", xml_escaped(name), counts.passed(), counts.failed(),
      counted(counts.checked, "checked case"));
  if (!kernel.description.empty())
    out += "<p>" + xml_escaped(kernel.description) + "</p>\n";
  out += part("Calls with", drawn_lines(kernel), "chips");
  out += part("Declared, and in no answered call", kernel.never_drawn, "chips");
  out += pairs_part(kernel.pairs);
  out += part("Looked near", hint_lines(kernel));
  out += part("Declared, and mostly refused", kernel.hollow);
  out += part("Assumed", assumed_lines(kernel));
  out += part("Looser than generic", looser);
  out += part("Warnings", warnings);
  out += part("Refused cases", refused);
  out += part("Laws without a verdict", open_lines(record, kernel));
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
  out += part("Not judged in this run", record.end.not_judged);
  out += part("Notes", record.end.notes);
  for (const KernelLine& kernel : record.kernels)
    out += kernel_coverage(record, kernel, record.kernels.size() == 1);
  return out;
}

std::string html_environment(const RunRecord& record) {
  const Environment& environment = record.start.environment;
  std::string out = "<dl>\n";
  out += fact("QKVet", environment.qkvet);
  out += fact("plan", plan_words(record));
  out += fact("seed", std::to_string(record.start.seed));
  out += fact("threads", std::to_string(record.start.jobs));
  out += fact("time", fmt::format("{:.1f} s", record.end.wall_seconds));
  out += fact("began", environment.began);
  out += fact("CPU", environment.cpu);
  if (environment.cores > 0)
    out += fact("cores", std::to_string(environment.cores));
  out += fact("system", environment.system);
  out += fact("machine", environment.machine);
  out += fact("compiler of QKVet", environment.compiler);
  for (const KernelLine& kernel : record.kernels)
    if (!kernel.library.empty())
      out += fact("library", kernel.kernel + ": " + kernel.library);
  return out + "</dl>\n";
}

}  // namespace qkvet::report
