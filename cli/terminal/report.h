// SPDX-License-Identifier: Apache-2.0
// Reports of a run, for people and for CI systems.
#ifndef QKVET_CLI_TERMINAL_REPORT_H_
#define QKVET_CLI_TERMINAL_REPORT_H_

#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "cli/terminal/diagnoses.h"
#include "cli/terminal/known.h"
#include "properties/run/runner.h"
#include "report/exit_code.h"
#include "report/lines.h"
#include "report/run_record.h"

namespace qkvet::cli {

struct FailureTensors;  // failure_tensors.h

struct ReportInput {
  const RunResult& result;
  const RunOptions& options;
  const SelectedKernels& selected;
  bool in_process = false;
  const KnownFailures* known = nullptr;     // failures that are accepted
  const Diagnoses* diagnoses = nullptr;     // causes of failures of the result
  size_t width = kLineWidth;                // of the lines of a failure
  const FailureTensors* tensors = nullptr;  // numbers of failures, for records
  const RunRecord* baseline = nullptr;      // an earlier run, with its failures
  // Globs over the kernels that were to be judged; empty: all selected ones.
  std::vector<std::string> kernels_asked = {};
};

// How a report is shown.
struct ReportStyle {
  bool colour = false;
  bool verbose = false;  // law by law, failures and coverage in full
  size_t width = 100;    // of the screen
  bool quiet = false;    // a line a kernel, and the verdict
};
// The style that stdout supports.
ReportStyle screen_style(bool verbose = false, bool quiet = false);

// 2 > 4 > 1 > 3 > 0; a finished run never yields 2. A kernel that this machine
// cannot run counts as not checked only if it was selected by name.
ExitCode exit_code_of(const ReportInput& input);

enum class Detail : uint8_t { kShort, kWhole };
// The report on one failure, lines of plain text without a final newline. With
// the names of other failing laws, the short one has at most 18 lines.
std::string failure_text(const ReportInput& input, const KernelResult& kernel,
                         const Failure& failure,
                         Detail detail = Detail::kShort);

// The text of all causes that the probes cannot tell apart: "... Or: ..."
std::string joined_causes(const Diagnosis& diagnosis, std::string Cause::*text);

// Whether the kernel died or hung: no law was judged.
bool is_death(const Failure& failure);

// The share of runs in which a failure happens, and what that suggests; "" if
// it always happens.
std::string unsteady_text(const Failure& failure);

// A guess from the numbers of the case alone; "" if other evidence decides: it
// is unsteady, or it depends on earlier calls.
std::string looks_text(const ReportInput& input, const Failure& failure);

// The command that fails again: "qkvet replay CASE --law LAW --kernel NAME".
std::string replay_line(const ReportInput& input, const KernelResult& kernel,
                        const Failure& failure);

// The whole report: failures, table, coverage, and at the end the verdict.
// `record` is record_of(input).
std::string text_report(const ReportInput& input, const RunRecord& record,
                        const ReportStyle& style);

// The record of a run. `start` is the result of start_of() when it began.
StartLine start_of(const RunOptions& options);
RunRecord record_of(const ReportInput& input, const StartLine& start);
RunRecord record_of(const ReportInput& input);
// A line of its JSON for how far a run is.
std::string json_round(int64_t round, int64_t cases_done, int64_t failed);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_REPORT_H_
