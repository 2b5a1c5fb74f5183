// SPDX-License-Identifier: Apache-2.0
// The conventions of known libraries, as `qkvet explain` prints them.
#ifndef QKVET_TOOLS_COMMANDS_CONVENTION_TEXT_H_
#define QKVET_TOOLS_COMMANDS_CONVENTION_TEXT_H_

#include "properties/conventions/conventions.h"
#include "tools/base/exit_code.h"

namespace qkvet::tools {

ExitCode explain_convention(const Convention& convention);
ExitCode list_conventions(bool json);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_CONVENTION_TEXT_H_
