// SPDX-License-Identifier: Apache-2.0
// Limits of the machine (ulimit) that would end a run in the middle, or make a
// kernel fail for a lack of ours.
#ifndef QKVET_TOOLS_BASE_HOST_LIMITS_H_
#define QKVET_TOOLS_BASE_HOST_LIMITS_H_

#include <string>

namespace qkvet::tools {

// Once, first of all: as many open files as the hard limit allows, and one line
// and kWrongUse where memory ends, in whatever thread.
void prepare_limits();

// "" or one line: a limit below what kernels need to be run, and that need.
std::string host_obstacle();

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_BASE_HOST_LIMITS_H_
