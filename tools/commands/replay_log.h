// SPDX-License-Identifier: Apache-2.0
// qkvet replay X.story.
#ifndef QKVET_TOOLS_COMMANDS_REPLAY_LOG_H_
#define QKVET_TOOLS_COMMANDS_REPLAY_LOG_H_

#include <string>

#include "tools/base/exit_code.h"
#include "tools/kernels/kernels.h"

namespace qkvet::tools {

// The name of a recorded story.
bool is_story_log(const std::string& target);
ExitCode replay_log(const std::string& path, const KernelSelection& selection);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_REPLAY_LOG_H_
