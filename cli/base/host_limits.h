// SPDX-License-Identifier: Apache-2.0
// Limits of the machine (ulimit) that would end a run in the middle, or make a
// kernel fail for a lack of ours.
#ifndef QKVET_CLI_BASE_HOST_LIMITS_H_
#define QKVET_CLI_BASE_HOST_LIMITS_H_

#include <string>

namespace qkvet::cli {

// Call once, first of all. Allows as many open files as the hard limit, and
// makes the end of memory, in any thread, one line and kWrongUse.
void prepare_limits();

// "" or one line: a limit below the needs of kernels, and the needed value.
std::string host_obstacle();

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_HOST_LIMITS_H_
