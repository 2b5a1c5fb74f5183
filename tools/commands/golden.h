// SPDX-License-Identifier: Apache-2.0
// qkvet golden: its commands, one file each.
#ifndef QKVET_TOOLS_COMMANDS_GOLDEN_H_
#define QKVET_TOOLS_COMMANDS_GOLDEN_H_

#include "tools/commands/flags.h"
#include "tools/golden/golden_folders.h"

namespace qkvet::tools {

void add_golden_verify(CLI::App& golden, Chosen& chosen);
void add_golden_record(CLI::App& golden, Chosen& chosen);
void add_golden_show(CLI::App& golden, Chosen& chosen);
void add_golden_import(CLI::App& golden, Chosen& chosen);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_GOLDEN_H_
