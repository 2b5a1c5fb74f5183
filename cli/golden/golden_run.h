// SPDX-License-Identifier: Apache-2.0
// Kernels compared with golden sets: the run, and its report.
#ifndef QKVET_CLI_GOLDEN_GOLDEN_RUN_H_
#define QKVET_CLI_GOLDEN_GOLDEN_RUN_H_

#include <deque>
#include <string>
#include <vector>

#include "cli/terminal/report.h"
#include "golden/check/verify.h"

namespace qkvet::cli {

// A set with doubtful numbers, and the reason.
struct DoubtfulSet {
  const GoldenSet* set = nullptr;
  std::string reason;
};

// A set instead of a law: a row of reports. Its id is the name of the set, its
// sentence the subject of the set.
struct SetRow {
  Law law;
  std::string precondition, reason;  // the storage of the law's texts
};

struct GoldenRun {
  const std::vector<GoldenSet>* sets = nullptr;
  std::deque<SetRow> rows;  // set by set
  std::vector<DoubtfulSet> doubtful;
  // Kernel by kernel, set by set.
  std::vector<std::vector<SetVerdict>> verdicts;
  // The same for reports: every cell is a set with its worst verdict: wrong,
  // not as expected, changed by too much, in doubt.
  RunResult result;
  Diagnoses diagnoses;
  std::string error;  // "" or one line
};

struct GoldenRunOptions {
  bool in_process = false;
  double most_ulps = -1;  // < 0: a changed but correct answer is no failure
  int diagnose = 1;
};

// The sets must outlive the run.
GoldenRun run_golden(const std::vector<GoldenSet>& sets,
                     const SelectedKernels& selected,
                     const GoldenRunOptions& options);

// Whether the answers differ from the set by more than is allowed.
bool changed_too_much(const SetVerdict& verdict,
                      const GoldenRunOptions& options);
// The input of a report; the run must outlive it.
RunOptions options_of(const GoldenRun& run);

// "5 of 24 numbers, at most 1 ulp, 0.12 of the bound, at o[b=0,...]"
std::string change_text(const Change& change);
std::string golden_text(const GoldenRun& run, const ReportInput& input,
                        const GoldenRunOptions& options);
// The record of the run. `again` is the command, without the set.
RunRecord golden_record(const GoldenRun& run, const ReportInput& input,
                        const std::string& again);
// The lines of the record, and lines "set" with the fields of sets: their
// origin, and how much has changed.
std::string golden_lines(const GoldenRun& run, const ReportInput& input,
                         const RunRecord& record);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_GOLDEN_GOLDEN_RUN_H_
