// SPDX-License-Identifier: Apache-2.0
// The causes of what failed in a run.
#ifndef QKVET_TOOLS_REPORT_DIAGNOSES_H_
#define QKVET_TOOLS_REPORT_DIAGNOSES_H_

#include <memory>
#include <vector>

#include "diagnosis/diagnose.h"
#include "tools/kernels/kernels.h"

namespace qkvet::tools {

struct Diagnoses {
  // Kernel by kernel, in the order of the run; those of a kernel that was not
  // looked at are empty. They point into the run's result.
  std::vector<std::vector<CauseOfFailures>> kernels;
  int not_looked_at = 0;  // failing kernels beyond the most that were asked for
  std::string no_faults;  // "" or why there was nothing to look them up in
};

// Default of the maximum number of failing kernels to diagnose.
inline constexpr int kDefaultDiagnosed = 8;

// The faults that come with QKVet, with tiles of several widths. Without the
// library of faults the catalogue is empty, and *missing is one line why.
std::unique_ptr<Catalogue> known_faults(std::string* missing);

// Diagnoses `most` failing kernels. `result` must stay where it is.
Diagnoses diagnose_run(const RunResult& result, const SelectedKernels& selected,
                       bool in_process, int most);

// Null if it was not looked for.
const CauseOfFailures* cause_of(const Diagnoses* diagnoses,
                                const Failure& failure);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPORT_DIAGNOSES_H_
