// SPDX-License-Identifier: Apache-2.0
// What is written from the record of a run (run_record.h), for systems and for
// people.
#ifndef QKVET_REPORT_REPORT_FILES_H_
#define QKVET_REPORT_REPORT_FILES_H_

#include <string>

#include "report/run_record.h"

namespace qkvet::report {

// JUnit XML: one test per kernel and law, id `kernel.law`.
std::string junit_report(const RunRecord& record);
// SARIF 2.1.0: laws are rules, failures are results.
std::string sarif_report(const RunRecord& record);
// For a summary of a job, an issue, a wiki.
std::string markdown_report(const RunRecord& record);
// "::error file=...,line=...,title=...::...", a line a failure.
std::string github_annotations(const RunRecord& record);
// One page without other files.
std::string html_report(const RunRecord& record);

// Paths of the files to write; "" for none.
struct ReportFiles {
  std::string junit, html, sarif, markdown;
  bool github = false;  // annotations on stdout, Markdown to the summary that
                        // $GITHUB_STEP_SUMMARY names

  bool any() const;
};
// Each file in one step; "" or one line.
std::string write_reports(const RunRecord& record, const ReportFiles& files);

// The place of its kernel: the source, or the library, and 0.
SourcePlace place_of(const RunRecord& record, const ResultLine& result);
// "no_scale: The scores are not scaled.", or the expected and the actual value.
std::string failure_line(const RunRecord& record, const ResultLine& result,
                         const FailureLine& failure);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_REPORT_FILES_H_
