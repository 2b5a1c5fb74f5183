// SPDX-License-Identifier: Apache-2.0
// The commands of qkvet golden and of qkvet demo, one file each.
#ifndef QKVET_TOOLS_COMMANDS_GROUPS_H_
#define QKVET_TOOLS_COMMANDS_GROUPS_H_

#include "tools/commands/flags.h"

namespace qkvet::tools {

void add_golden_verify(Command& golden, Chosen& chosen);
void add_golden_record(Command& golden, Chosen& chosen);
void add_golden_show(Command& golden, Chosen& chosen);
void add_golden_import(Command& golden, Chosen& chosen);

void add_inspect(Command& demo, Chosen& chosen);
void add_trace(Command& demo, Chosen& chosen);
void add_train(Command& demo, Chosen& chosen);
void add_memory(Command& demo, Chosen& chosen);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_GROUPS_H_
