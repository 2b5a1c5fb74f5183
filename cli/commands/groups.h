// SPDX-License-Identifier: Apache-2.0
// The commands of qkvet golden and of qkvet demo, one file each.
#ifndef QKVET_CLI_COMMANDS_GROUPS_H_
#define QKVET_CLI_COMMANDS_GROUPS_H_

#include "cli/commands/flags.h"

namespace qkvet::cli {

void add_golden_verify(CLI::App& golden, Chosen& chosen);
void add_golden_record(CLI::App& golden, Chosen& chosen);
void add_golden_show(CLI::App& golden, Chosen& chosen);
void add_golden_import(CLI::App& golden, Chosen& chosen);

void add_inspect(CLI::App& demo, Chosen& chosen);
void add_trace(CLI::App& demo, Chosen& chosen);
void add_train(CLI::App& demo, Chosen& chosen);
void add_memory(CLI::App& demo, Chosen& chosen);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_GROUPS_H_
