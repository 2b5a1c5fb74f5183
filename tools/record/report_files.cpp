// SPDX-License-Identifier: Apache-2.0
#include "tools/record/report_files.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tools/base/written_file.h"

namespace qkvet::tools {
namespace {

struct Writer {
  std::string ReportFiles::*file;
  std::string (*written)(const RunRecord& record);
};
constexpr Writer kWriters[] = {{&ReportFiles::junit, junit_report},
                               {&ReportFiles::html, html_report},
                               {&ReportFiles::sarif, sarif_report},
                               {&ReportFiles::markdown, markdown_report}};

// Steps of a job add to one file.
std::string add_to_summary(const RunRecord& record) {
  const char* path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == 0) return "";
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << markdown_report(record);
  file.close();
  return file.good() ? "" : std::string(path) + ": cannot be written";
}

}  // namespace

bool ReportFiles::any() const {
  for (const Writer& one : kWriters)
    if (!(this->*one.file).empty()) return true;
  return github;
}

std::string write_reports(const RunRecord& record, const ReportFiles& files) {
  for (const Writer& one : kWriters) {
    const std::string& path = files.*one.file;
    if (path.empty()) continue;
    if (std::string why = write_file(path, one.written(record)); !why.empty())
      return why;
  }
  if (!files.github) return "";
  std::fputs(github_annotations(record).c_str(), stdout);
  std::fflush(stdout);
  return add_to_summary(record);
}

KernelPlace place_of(const RunRecord& record, const Json& result) {
  const Json& kernel = record.kernel(text_of(result, "kernel"));
  const Json& source = part_of(kernel, "source");
  if (const std::string file = text_of(source, "file"); !file.empty())
    return {file, count_of(source, "line")};
  return {text_of(kernel, "library"), 0};
}

std::string failure_line(const RunRecord& record, const Json& result,
                         const Json& failure) {
  const Json& diagnosis = part_of(failure, "diagnosis");
  if (const std::string text = text_of(diagnosis, "text"); !text.empty())
    return fmt::format("{}: {} ({} fails for {})", text_of(diagnosis, "cause"),
                       text, text_of(result, "law"), text_of(failure, "case"));
  std::string out = text_of(record.law(text_of(result, "law")), "sentence");
  if (out.empty()) out = text_of(result, "law") + " fails.";
  out += fmt::format(" For {}", text_of(failure, "case"));
  if (const std::string actual = text_of(failure, "actual"); !actual.empty())
    out += fmt::format(" {} is {}, expected {}", text_of(failure, "at"), actual,
                       text_of(failure, "expected"));
  return out + ".";
}

}  // namespace qkvet::tools
