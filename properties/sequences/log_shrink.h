// SPDX-License-Identifier: Apache-2.0
// From a recording that fails somewhere to the shortest story that still does.
//
// Commands after the failure are removed first; then all that gave the failing
// one no tokens, if the rest fails without them; then halves, quarters, ... and
// single commands; and what is left is shrunk by the steps of all stories.
#ifndef QKVET_PROPERTIES_SEQUENCES_LOG_SHRINK_H_
#define QKVET_PROPERTIES_SEQUENCES_LOG_SHRINK_H_

#include "properties/sequences/log_run.h"

namespace qkvet::properties {

struct ShrunkLog {
  Story story;            // the last command fails ...
  int64_t sequences = 1;  // of a cache of this many
  LogFailure failure;     // of this story
  // How often the recording was run again up to its failure, and failed.
  int repeats = 0, repeats_failed = 0;
};

// `found` is the result of run_log() for all commands, and Failed. Limited by
// steps, never by time. A recording that does not fail every time is not
// shrunk.
ShrunkLog shrink_log(const StoryLog& log, const LogFailure& found,
                     const LogKernel& kernel);

// The case that spells this story; nullopt if a case cannot have as many
// commands or sequences.
std::optional<Case> case_of_log(const Case& geometry, const Story& story,
                                int64_t sequences, const KernelInfo& kernel);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_LOG_SHRINK_H_
