// SPDX-License-Identifier: Apache-2.0
// The causes of the failures in a run.
#ifndef QKVET_CLI_TERMINAL_DIAGNOSES_H_
#define QKVET_CLI_TERMINAL_DIAGNOSES_H_

#include <memory>
#include <vector>

#include "cli/kernels/kernels.h"
#include "diagnosis/diagnose.h"

namespace qkvet::cli {

struct Diagnoses {
  // Kernel by kernel, in the order of the run; empty for a kernel without a
  // diagnosis. They point into the run's result.
  std::vector<std::vector<CauseOfFailures>> kernels;
  int not_looked_at = 0;  // failing kernels beyond the maximum
  std::string no_faults;  // "" or why no known faults were available
};

// Default of the maximum number of failing kernels to diagnose.
inline constexpr int kDefaultDiagnosed = 8;

// The faults that come with QKVet, with tiles of several widths. Without the
// library of faults the catalogue is empty, and *missing is one line with the
// reason.
std::unique_ptr<Catalogue> known_faults(std::string* missing);

// Diagnoses `most` failing kernels. `result` must not move.
Diagnoses diagnose_run(const RunResult& result, const SelectedKernels& selected,
                       bool in_process, int most);

// Null if there is no diagnosis.
const CauseOfFailures* cause_of(const Diagnoses* diagnoses,
                                const Failure& failure);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_DIAGNOSES_H_
