// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end, without a shell.
#ifndef QKVET_CLI_BASE_CHILD_H_
#define QKVET_CLI_BASE_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace qkvet::cli {

struct ChildResult {
  std::string output;  // stdout and stderr together
  int status = 0;      // as waitpid() returns it
  std::string error;   // one line: the program could not be run

  bool ended_well() const;
  std::string end() const;  // "ended with 1", "died of signal 9"
};

// words[0] is the path of the program; its stdin is empty.
ChildResult run_child(const std::vector<std::string>& words);

// The same, without waiting: stdout and stderr go to the file `output`. With
// `own_group` the processes that it forks are in its group. "" or one line.
std::string start_child(const std::vector<std::string>& words, int output,
                        bool own_group, pid_t* pid);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_CHILD_H_
