// SPDX-License-Identifier: Apache-2.0
// Inside of the command line: how commands let kernels be named.
#ifndef QKVET_TOOLS_COMMANDS_MAIN_KERNELS_H_
#define QKVET_TOOLS_COMMANDS_MAIN_KERNELS_H_

#include "tools/kernels/kernels.h"

namespace CLI {
class App;
}

namespace qkvet::tools {

// --plugin.
void add_plugins(CLI::App& command, std::vector<std::string>& plugins);
// --kernel, --plugin, --in-process
void add_kernels(CLI::App& command, KernelSelection& selection);
// And --dialect, --precision, --cflags.
void add_selection(CLI::App& command, KernelSelection& selection);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_MAIN_KERNELS_H_
