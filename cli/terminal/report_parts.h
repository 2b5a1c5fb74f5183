// SPDX-License-Identifier: Apache-2.0
// The parts of the report for people, and their common words.
#ifndef QKVET_CLI_TERMINAL_REPORT_PARTS_H_
#define QKVET_CLI_TERMINAL_REPORT_PARTS_H_

#include <string>
#include <vector>

#include "cli/terminal/report.h"
#include "report/run_record.h"

namespace qkvet::cli {

// SGR codes, such as "1;31", around the text if colour is on.
std::string painted(const std::string& text, const char* code, bool colour);

// "law_a, law_b and 15 more": as many as there is room for, one at least.
std::string some_of(const std::vector<std::string>& words, size_t width);

// Whether the run asked every law of attention, with any extents, over all
// shards together. If so, a declared option without a case was not judged, and
// the verdict is no pass.
bool asks_whole_plan(const ReportInput& input);
// Subjects that no law could judge, and why: "caches (not declared)".
Texts not_judged(const ReportInput& input);
// The assumption in the spelling of a file of dialect fields: "base2".
std::string assumed_word(const JudgedKernel& judged, const Assumption& one);

// The content of a report, and its style.
struct Shown {
  const ReportInput& input;
  const RunRecord& record;  // of the input
  const ReportStyle& style;

  // Whether failures can be accepted.
  bool has_known() const {
    return input.known != nullptr || input.baseline != nullptr;
  }
};

// A line per kernel, and its open questions.
std::string kernel_table(const Shown& shown);
// A line for every law of every kernel.
std::string law_table(const Shown& shown);
// The basis of the verdict: the plan, the assumptions, and the coverage, in one
// line or in full.
std::string coverage_lines(const Shown& shown);
// "PASSED  1 kernel, 95 laws asked: ...   exit 0"
std::string verdict_lines(const Shown& shown);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_REPORT_PARTS_H_
