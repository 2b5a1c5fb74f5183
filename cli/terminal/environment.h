// SPDX-License-Identifier: Apache-2.0
// The machine of a run, for its record.
#ifndef QKVET_CLI_TERMINAL_ENVIRONMENT_H_
#define QKVET_CLI_TERMINAL_ENVIRONMENT_H_

#include "report/run_record.h"

namespace qkvet::cli {

// This machine; `began` is the time of this call.
Environment environment();

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_ENVIRONMENT_H_
