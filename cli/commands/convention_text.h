// SPDX-License-Identifier: Apache-2.0
// The conventions of known libraries, as `qkvet explain` prints them.
#ifndef QKVET_CLI_COMMANDS_CONVENTION_TEXT_H_
#define QKVET_CLI_COMMANDS_CONVENTION_TEXT_H_

#include "properties/conventions/conventions.h"
#include "report/exit_code.h"

namespace qkvet::cli {

ExitCode explain_convention(const Convention& convention);
ExitCode list_conventions(bool json);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_CONVENTION_TEXT_H_
