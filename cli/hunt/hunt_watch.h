// SPDX-License-Identifier: Apache-2.0
// Watches over the process that hunts: starts it, shows its progress, ends it,
// and starts it again if a kernel in that process has ended it.
#ifndef QKVET_CLI_HUNT_HUNT_WATCH_H_
#define QKVET_CLI_HUNT_HUNT_WATCH_H_

#include <string>
#include <vector>

#include "cli/hunt/hunt_job.h"

namespace qkvet::cli {

struct HuntLimits {
  double seconds = 0;  // 0: none
  int64_t runs = 0;    // 0: none
  uint64_t seed = 1;
  int jobs = 1;            // processes, 1 without the engine's fork mode
  bool fail_fast = false;  // ends with the first failure
  bool show = false;       // a line that rewrites itself, on stderr
};

// An input at which the process died.
struct HuntCrash {
  std::string file;     // the input, in the job's folder
  std::string how;      // "crash", "timeout", "oom", as the engine names it
  int32_t kernel = -1;  // the one at work
};

struct HuntEnd {
  int64_t executions = 0;
  int64_t checked = 0;
  double seconds = 0;
  std::vector<HuntCrash> crashes;
  bool interrupted = false;  // by the user
  std::string error;  // one line: the hunt could not be made or went wrong
};

// `inputs`: folders of inputs. The engine adds to the first.
HuntEnd watch_hunt(const HuntJob& job, const HuntLimits& limits,
                   const std::vector<std::string>& inputs);

// The last message of a sanitizer or the engine about a process that died:
// "AddressSanitizer: heap-buffer-overflow mine.cpp:41 in forward"; "" if there
// is none.
std::string last_summary(const std::string& folder);

// Copies the least inputs of `from` that cover the same as all of them to
// `into`. "" or one line.
std::string merge_inputs(const HuntJob& job, const std::string& into,
                         const std::vector<std::string>& from);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_HUNT_WATCH_H_
