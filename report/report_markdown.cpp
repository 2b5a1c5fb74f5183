// SPDX-License-Identifier: Apache-2.0
// Markdown for people, and the annotations that GitHub shows next to a line.
#include <fmt/core.h>

#include <algorithm>

#include "report/exit_code.h"
#include "report/lines.h"
#include "report/report_files.h"

namespace qkvet::report {
namespace {

// Text in a cell or a paragraph, without markup. Names of kernels may contain
// anything.
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

std::string kernel_row(const RunRecord& record, const KernelLine& kernel) {
  const auto results = record.results_of(kernel);
  const RecordCounts counts = counts_of(results);
  Texts failing;
  for (const ResultLine* result : results)
    if (is_bad(result->state())) failing.push_back(result->law);
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n",
                     plain(kernel.kernel), counts.passed(), counts.failed(),
                     counts.of(RowState::kUndeclared) +
                         counts.of(RowState::kUnsupported) +
                         counts.of(RowState::kOpen),
                     grouped(counts.checked),
                     counts.worst > 0 ? worst_text(counts.worst) : "-",
                     plain(joined(failing)));
}

std::string failure_section(const Reported& one) {
  const std::string out =
      fmt::format("### {} under {}\n\n{}\n", plain(one.result->kernel),
                  plain(one.result->law), block(one.failure->report));
  if (one.also.empty()) return out;
  return out + "Fails for the same cause: " + plain(joined(one.also_laws())) +
         "\n\n";
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
  std::string out =
      fmt::format("## QKVet: {}\n\n{}\n\n", verdict_word(record.end.exit),
                  plain(verdict_sentence(record)));
  out +=
      "| kernel | passed | failed | not judged | checked cases | error/bound | "
      "fails |\n|---|---:|---:|---:|---:|---:|---|\n";
  for (const KernelLine& kernel : record.kernels)
    out += kernel_row(record, kernel);
  out += "\n";
  // A job's summary may have a megabyte.
  constexpr size_t kMostShown = 50;
  const std::vector<Reported> failures = reported_failures(record);
  for (size_t i = 0; i < std::min(kMostShown, failures.size()); ++i)
    out += failure_section(failures[i]);
  if (failures.size() > kMostShown)
    out +=
        fmt::format("and {} more failures\n\n", failures.size() - kMostShown);
  if (const Texts& not_judged = record.end.not_judged; !not_judged.empty())
    out += "Not judged: " + plain(joined(not_judged, "; ")) + "\n\n";
  const Environment& environment = record.start.environment;
  return out + fmt::format("Plan: {}. QKVet {}, {}\n",
                           plain(plan_words(record)), plain(environment.qkvet),
                           plain(environment.cpu));
}

std::string github_annotations(const RunRecord& record) {
  std::string out;
  for (const Reported& one : reported_failures(record)) {
    const SourcePlace place = place_of(record, *one.result);
    const std::string& cause = one.failure->cause().cause;
    const std::string title =
        "qkvet: " + (cause.empty() ? one.result->law : cause);
    std::string where;
    // A library is no file that a review could show.
    if (!place.file.empty() && place.line > 0)
      where =
          fmt::format("file={},line={},",
                      annotated(place.file, /*is_property=*/true), place.line);
    out += fmt::format(
        "::error {}title={}::{}\n", where,
        annotated(title, /*is_property=*/true),
        annotated(one.result->kernel + ": " +
                      failure_line(record, *one.result, *one.failure) +
                      "\nagain: " + one.failure->again,
                  /*is_property=*/false));
  }
  if (record.end.exit == kNothingChecked)
    out += fmt::format("::warning title=qkvet%3A incomplete::{}\n",
                       annotated(verdict_sentence(record),
                                 /*is_property=*/false));
  return out;
}

}  // namespace qkvet::report
