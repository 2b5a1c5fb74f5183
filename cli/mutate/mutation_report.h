// SPDX-License-Identifier: Apache-2.0
// Reports of a run of mutants, for people and for programs.
#ifndef QKVET_CLI_MUTATE_MUTATION_REPORT_H_
#define QKVET_CLI_MUTATE_MUTATION_REPORT_H_

#include <map>
#include <string>

#include "cli/mutate/mutation_run.h"

namespace qkvet::cli {

// Explained survivors: the reason, by id.
using Explained = std::map<std::string, std::string>;
// "ID WHY" a line, # begins a comment; each id one of the source's. "" or one
// line.
std::string read_explained(const std::string& path, const std::string& source,
                           Explained* explained);

// 0: every judged mutant is killed or explained; 1: one survived, or an
// explained one is killed; 3: none was judged, or not all were reached.
ExitCode mutation_exit(const MutationRun& run, const Explained& explained);

std::string mutation_text(const MutationWords& words, const MutationRun& run,
                          const Explained& explained);
// JSON Lines: a line a mutant, a summary.
std::string mutation_json(const MutationWords& words, const MutationRun& run,
                          const Explained& explained);

// The facts about a survivor, and what it would take to see it.
std::string seen_text(const Survival& survival);
std::string needed_text(const Survival& survival);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_MUTATION_REPORT_H_
