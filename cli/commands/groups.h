// SPDX-License-Identifier: Apache-2.0
// The commands of qkvet golden and of qkvet demo, one file each.
#ifndef QKVET_CLI_COMMANDS_GROUPS_H_
#define QKVET_CLI_COMMANDS_GROUPS_H_

#include "cli/commands/flags.h"

namespace qkvet::cli {

void add_golden_verify(Command& golden, Chosen& chosen);
void add_golden_record(Command& golden, Chosen& chosen);
void add_golden_show(Command& golden, Chosen& chosen);
void add_golden_import(Command& golden, Chosen& chosen);

void add_inspect(Command& demo, Chosen& chosen);
void add_trace(Command& demo, Chosen& chosen);
void add_train(Command& demo, Chosen& chosen);
void add_memory(Command& demo, Chosen& chosen);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_GROUPS_H_
