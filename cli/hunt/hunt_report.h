// SPDX-License-Identifier: Apache-2.0
// From the events of a hunt to reports: each failing input is repeated, shrunk
// and diagnosed, and there is one report per cause.
#ifndef QKVET_CLI_HUNT_HUNT_REPORT_H_
#define QKVET_CLI_HUNT_HUNT_REPORT_H_

#include <string>
#include <vector>

#include "cli/hunt/hunt_watch.h"
#include "cli/terminal/report.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// A failing input that did not fail again, with kernels in workers.
struct LostFailure {
  std::string kernel, law, text;
  bool died = false;  // the process that hunts did, at this input
  std::string file;   // of an input at which it died
  std::string said;   // a sanitizer's message, in one line; "" if unknown
};

// The findings of a hunt of kernels. The result has a cell per failure.
struct HuntFindings {
  RunResult result;
  Diagnoses diagnoses;
  std::vector<LostFailure> lost;
  bool in_process = false;  // no worker could load the library
  std::string error;        // one line; if set, ignore the other fields

  // The failures that are reported, a cause each, the best of each cause.
  struct Report {
    const KernelResult* kernel;
    const Failure* failure;
    std::vector<const Failure*> others;
    std::string cause;  // "no_scale", "unknown"
  };
  std::vector<Report> reports() const;
};
// `most`: maximum number of failing kernels to diagnose.
HuntFindings look_into(const Hunted& hunted, const HuntJob& job,
                       const HuntEnd& end, int most);

struct HuntSummary {
  const Hunted& hunted;
  const HuntJob& job;
  const HuntEnd& end;
  const HuntFindings& findings;
  uint64_t seed;
  std::string corpus;       // the folder of the inputs; "": none
  std::string regressions;  // "" or "FILE: 2 lines added"
};
std::string hunt_text(const HuntSummary& summary, bool colour);
ExitCode hunt_exit(const HuntEnd& end, const HuntFindings& findings);

// The report of a hunt in bytes, which ends with its first finding.
std::string bytes_text(const Hunted& hunted, const HuntJob& job,
                       const HuntEnd& end);
ExitCode bytes_exit(const HuntJob& job, const HuntEnd& end);

// Adds a line for each report with a law and case that are not in the file yet:
// "LAW CASE  # KERNEL CAUSE". Returns the number of lines, or -1 with *error.
int add_regressions(const std::string& path, const HuntFindings& findings,
                    std::string* error);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_HUNT_REPORT_H_
