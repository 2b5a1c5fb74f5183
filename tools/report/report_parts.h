// SPDX-License-Identifier: Apache-2.0
// The parts of the report for people, and the words that they share.
#ifndef QKVET_TOOLS_REPORT_REPORT_PARTS_H_
#define QKVET_TOOLS_REPORT_REPORT_PARTS_H_

#include <string>
#include <vector>

#include "tools/record/run_record.h"
#include "tools/report/report.h"

namespace qkvet::tools {

// SGR codes, such as "1;31", around the text where there is colour.
std::string painted(const std::string& text, const char* code, bool colour);

// "law_a, law_b and 15 more": as many as there is room for, one at least.
std::string some_of(const std::vector<std::string>& words, size_t width);

// Whether it fails as the file of known failures says.
bool is_known(const ReportInput& input, const KernelResult& kernel,
              const Cell& cell);

// Whether the run asked every law of attention, of extents as they come: what
// was declared and had no case then was not judged, and the verdict is no pass.
bool is_whole_plan(const ReportInput& input);
// The same of all shards together, where this is one of them.
bool asks_whole_plan(const ReportInput& input);
// What no law could be asked about, and why: "caches (not declared)".
std::vector<std::string> not_judged(const ReportInput& input);
// What was assumed, as a file of dialect fields spells it: "base2".
std::string assumed_word(const JudgedKernel& judged, const Assumption& one);
// The verdict as records spell it: "passed", "FAILED", "crash", ...
std::string verdict_word(const Cell& cell);
// What accepts its failures, into the line of the cell: a file of known
// failures, a baseline.
void add_accepted(const ReportInput& input, const KernelResult& kernel,
                  const Cell& cell, Json& result);
// Whether the kernel lacks what the law is about and says so itself.
bool is_undeclared(const Cell& cell);
// The part of the run's record that its verdict rests on.
RunRecord verdict_facts(const ReportInput& input);

// How many laws of one kernel, or of all, have which verdict.
struct LawCounts {
  int64_t passed = 0, failed = 0, known = 0;
  int64_t undeclared = 0;   // unsupported, and the kernel never said otherwise
  int64_t unsupported = 0;  // for any other reason
  int64_t open = 0;         // gave up, mistrusted, skipped
  int64_t checked = 0;      // cases
  int64_t refused = 0;      // cases
  double worst_ratio = 0, seconds = 0;

  void add(const LawCounts& other);
};
// Cases that were refused of a law that others were judged by: a law that the
// kernel cannot be asked for at all is counted as such.
int64_t refused_cases(const Cell& cell);

LawCounts counts_of(const ReportInput& input, const KernelResult& kernel);

// A line a kernel, and what its numbers leave open.
std::string kernel_table(const ReportInput& input, const ReportStyle& style);
// A line for every law of every kernel.
std::string law_table(const ReportInput& input, const ReportStyle& style);
// What the verdict rests on: the plan, what was assumed, and how much was
// covered, in one line or in full.
std::string coverage_lines(const ReportInput& input, const ReportStyle& style);
// "PASSED  1 kernel, 95 laws asked: ...   exit 0"
std::string verdict_lines(const ReportInput& input, const ReportStyle& style);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPORT_REPORT_PARTS_H_
