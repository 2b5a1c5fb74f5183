// SPDX-License-Identifier: Apache-2.0
// The process that hunts: `qkvet fuzz` starts it with words of the engine and
// one of its own, and the engine does the same when it forks.
#ifndef QKVET_CLI_HUNT_HUNT_CHILD_H_
#define QKVET_CLI_HUNT_HUNT_CHILD_H_

#include <string>

namespace qkvet::cli {

// Behind -ignore_remaining_args=1, with the path of the job.
inline constexpr char kHuntWord[] = "--qkvet-hunt=";
// The process could not begin; its one line is an event.
inline constexpr int kHuntNotBegun = 119;

bool is_hunt_child(int argc, char** argv);
int run_hunt_child(int argc, char** argv);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_HUNT_CHILD_H_
