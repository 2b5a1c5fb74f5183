// SPDX-License-Identifier: Apache-2.0
// The plainest loop that reads memory: a comparison for a kernel that has to
// read as much.
#ifndef QKVET_CLI_BASE_READ_LOOP_H_
#define QKVET_CLI_BASE_READ_LOOP_H_

#include <span>

namespace qkvet::cli {

// In independent sums, so that no addition waits for the previous one.
float sum_of(std::span<const float> values);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_READ_LOOP_H_
