// SPDX-License-Identifier: Apache-2.0
// qkvet check --faults: how many faults the laws find.
#ifndef QKVET_CLI_COMMANDS_CHECK_FAULTS_H_
#define QKVET_CLI_COMMANDS_CHECK_FAULTS_H_

#include <string>

#include "cli/kernels/kernels.h"
#include "cli/terminal/select.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// In addition to the words of a run.
struct FaultsOptions {
  bool named = false;       // only the laws that a fault names
  bool every_case = false;  // laws go on after a kill
};
// Without a selection: faulty/*. `json` is a file, "" for none.
ExitCode check_faults(const FaultsOptions& options, const RunWords& words,
                      KernelSelection selection, const std::string& json);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_CHECK_FAULTS_H_
