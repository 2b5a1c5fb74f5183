// SPDX-License-Identifier: Apache-2.0
// qkvet golden: its commands, one file each.
#ifndef QKVET_TOOLS_COMMANDS_GOLDEN_H_
#define QKVET_TOOLS_COMMANDS_GOLDEN_H_

#include "tools/commands/flags.h"
#include "tools/golden/golden_folders.h"

namespace qkvet::tools {

void add_golden_verify(Command& golden, Chosen& chosen);
void add_golden_record(Command& golden, Chosen& chosen);
void add_golden_show(Command& golden, Chosen& chosen);
void add_golden_import(Command& golden, Chosen& chosen);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_GOLDEN_H_
