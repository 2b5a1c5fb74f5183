// SPDX-License-Identifier: Apache-2.0
#include "report/report_files.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "report/written_file.h"

namespace qkvet::report {
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

SourcePlace place_of(const RunRecord& record, const ResultLine& result) {
  const KernelLine& kernel = *record.kernel(result.kernel);
  return kernel.source ? *kernel.source : SourcePlace{kernel.library, 0};
}

std::string failure_line(const RunRecord& record, const ResultLine& result,
                         const FailureLine& failure) {
  if (const DiagnosisFound& cause = failure.cause(); !cause.text.empty())
    return fmt::format("{}: {} ({} fails for {})", cause.cause, cause.text,
                       result.law, failure.value);
  std::string out =
      fmt::format("{} For {}", record.law(result.law)->sentence, failure.value);
  if (!failure.actual.empty())
    out += fmt::format(" {} is {}, expected {}", failure.at, failure.actual,
                       failure.expected);
  return out + ".";
}

}  // namespace qkvet::report
