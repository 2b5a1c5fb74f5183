// SPDX-License-Identifier: Apache-2.0
// qkvet replay X.story.
#ifndef QKVET_CLI_COMMANDS_REPLAY_LOG_H_
#define QKVET_CLI_COMMANDS_REPLAY_LOG_H_

#include <string>

#include "cli/kernels/kernels.h"
#include "cli/terminal/report.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// The name of a recorded story.
bool is_story_log(const std::string& target);
ExitCode replay_log(const std::string& path, const KernelSelection& selection,
                    Detail detail);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_REPLAY_LOG_H_
