// SPDX-License-Identifier: Apache-2.0
// qkvet list --plugin: what the kernels of a library declare.
#ifndef QKVET_TOOLS_COMMANDS_LIST_PLUGINS_H_
#define QKVET_TOOLS_COMMANDS_LIST_PLUGINS_H_

#include <string>
#include <vector>

#include "tools/base/exit_code.h"

namespace qkvet::tools {

// `what`: "kernels" or ""; plugins "FILE[:config]".
ExitCode list_plugins(const std::string& what,
                      const std::vector<std::string>& plugins, bool json);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_LIST_PLUGINS_H_
