// SPDX-License-Identifier: Apache-2.0
// Markdown for people, and the annotations that GitHub shows beside a line.
#include <fmt/core.h>

#include <algorithm>

#include "tools/base/exit_code.h"
#include "tools/base/lines.h"
#include "tools/record/report_files.h"

namespace qkvet::tools {
namespace {

// Text in a cell or a paragraph: nothing in it is markup. Kernels may name
// themselves in anything.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      out += ' ';
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("\\`*_[]|>#!~").find(c) != std::string_view::npos)
        out += '\\';
      out += c;
    }
  }
  return out;
}

// A block of code that the text cannot end: its fence is longer than any row of
// backquotes in it.
std::string block(const std::string& text) {
  size_t longest = 0, row = 0;
  for (const char c : text) {
    row = c == '`' ? row + 1 : 0;
    longest = std::max(longest, row);
  }
  const std::string fence(std::max<size_t>(3, longest + 1), '`');
  return fence + "\n" + text + "\n" + fence + "\n";
}

std::string kernel_row(const RunRecord& record, const std::string& kernel) {
  const RecordCounts counts = counts_of(record, kernel);
  std::string failing;
  for (const Json& result : record.results)
    if (text_of(result, "kernel") == kernel && is_bad(state_of(result)))
      failing += (failing.empty() ? "" : ", ") + text_of(result, "law");
  return fmt::format(
      "| {} | {} | {} | {} | {} | {} | {} |\n", plain(kernel), counts.passed,
      counts.failed, counts.undeclared + counts.unsupported + counts.open,
      grouped(counts.checked),
      counts.worst > 0 ? worst_text(counts.worst) : "-", plain(failing));
}

std::string failure_section(const Reported& one) {
  const Json& failure = *one.failure;
  std::string out =
      fmt::format("### {} under {}\n\n", plain(text_of(*one.result, "kernel")),
                  plain(text_of(*one.result, "law")));
  out += block(text_of(failure, "report")) + "\n";
  if (one.also.empty()) return out;
  std::vector<std::string> laws;
  for (const auto& [result, other] : one.also) {
    const std::string law = text_of(*result, "law");
    if (std::find(laws.begin(), laws.end(), law) == laws.end())
      laws.push_back(law);
  }
  return out + "Fails for the same cause: " + plain(joined(laws)) + "\n\n";
}

// For the properties and the message of an annotation.
std::string annotated(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    const bool escaped = c == '%' || c == '\r' || c == '\n' ||
                         (is_property && (c == ':' || c == ','));
    if (escaped)
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string markdown_report(const RunRecord& record) {
  std::string out = fmt::format("## QKVet: {}\n\n{}\n\n", verdict_word(record),
                                plain(verdict_sentence(record)));
  out +=
      "| kernel | passed | failed | not judged | checked cases | error/bound | "
      "fails |\n|---|---:|---:|---:|---:|---:|---|\n";
  for (const Json& kernel : record.kernels)
    out += kernel_row(record, text_of(kernel, "kernel"));
  out += "\n";
  // A summary of a job holds a megabyte.
  constexpr size_t kMostShown = 50;
  const std::vector<Reported> failures = reported_failures(record);
  for (size_t i = 0; i < std::min(kMostShown, failures.size()); ++i)
    out += failure_section(failures[i]);
  if (failures.size() > kMostShown)
    out +=
        fmt::format("and {} more failures\n\n", failures.size() - kMostShown);
  const auto not_judged = texts_of(record.end, "not_judged");
  if (!not_judged.empty())
    out += "Not judged: " + plain(joined(not_judged, "; ")) + "\n\n";
  const Json& environment = part_of(record.start, "environment");
  return out +
         fmt::format("Plan: {}. {}\n", plain(plan_words(record)),
                     text_of(environment, "qkvet").empty()
                         ? ""
                         : plain("QKVet " + text_of(environment, "qkvet") +
                                 ", " + text_of(environment, "cpu")));
}

std::string github_annotations(const RunRecord& record) {
  std::string out;
  for (const Reported& one : reported_failures(record)) {
    const KernelPlace place = place_of(record, *one.result);
    const std::string cause =
        text_of(part_of(*one.failure, "diagnosis"), "cause");
    const std::string title = fmt::format(
        "qkvet: {}", cause.empty() ? text_of(*one.result, "law") : cause);
    std::string where;
    // A library is no file that a review could show.
    if (!place.file.empty() && place.line > 0)
      where =
          fmt::format("file={},line={},",
                      annotated(place.file, /*is_property=*/true), place.line);
    out += fmt::format(
        "::error {}title={}::{}\n", where,
        annotated(title, /*is_property=*/true),
        annotated(text_of(*one.result, "kernel") + ": " +
                      failure_line(record, *one.result, *one.failure) +
                      "\nagain: " + text_of(*one.failure, "again"),
                  /*is_property=*/false));
  }
  if (count_of(record.end, "exit") == kNothingChecked)
    out += fmt::format("::warning title=qkvet%3A incomplete::{}\n",
                       annotated(verdict_sentence(record),
                                 /*is_property=*/false));
  return out;
}

}  // namespace qkvet::tools
