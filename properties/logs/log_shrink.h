// SPDX-License-Identifier: Apache-2.0
// From a recording that fails somewhere to the shortest story that still does.
//
// Commands after the failure are removed first; then every sequence that the
// failing one was not made from, if the rest fails without them; then halves,
// quarters, ... and single commands, and tokens. If a Case can spell the rest,
// it is shrunk further like any other.
#ifndef QKVET_PROPERTIES_LOGS_LOG_SHRINK_H_
#define QKVET_PROPERTIES_LOGS_LOG_SHRINK_H_

#include "properties/logs/log_run.h"

namespace qkvet::properties {

struct ShrunkLog {
  LogCommands commands;  // the last one fails
  LogFailure failure;    // of these commands
  // How often the recording was run again up to its failure, and failed.
  int repeats = 0, repeats_failed = 0;

  // The smallest case that fails in the same way, and the law that owns the
  // failure; null if no case can spell the commands, or if no law fails.
  const Law* law = nullptr;
  Case value;
  Judgement judgement;
};

// `found` is the result of run_log() for all commands, and Failed. Limited by
// steps, never by time. A recording that does not fail every time is not
// shrunk.
ShrunkLog shrink_log(const StoryLog& log, const LogFailure& found,
                     const LogKernel& kernel);

// The case that spells these commands to a cache of this many sequences, or as
// many as they need; nullopt if a case cannot have as many of either.
std::optional<Case> case_of_log(const StoryLog& log,
                                const LogCommands& commands, int64_t sequences,
                                const KernelInfo& kernel);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_LOGS_LOG_SHRINK_H_
