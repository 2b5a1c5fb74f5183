// SPDX-License-Identifier: Apache-2.0
// qkvet mutate --repair: the edit of a failing kernel that makes it conform.
#ifndef QKVET_CLI_COMMANDS_REPAIR_H_
#define QKVET_CLI_COMMANDS_REPAIR_H_

#include <cstddef>
#include <string>

#include "cli/kernels/kernels.h"
#include "cli/terminal/select.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// The time for all edits if the command line has none.
inline constexpr const char* kRepairTime = "120s";
// Repairs one source. At most `most` edits are shown; `json` is a file, "" for
// none.
ExitCode repair(const RunWords& words, const KernelSelection& selection,
                size_t most, const std::string& json);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_REPAIR_H_
