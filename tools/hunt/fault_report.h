// SPDX-License-Identifier: Apache-2.0
// What `qkvet faults` says, to people and to programs.
#ifndef QKVET_TOOLS_HUNT_FAULT_REPORT_H_
#define QKVET_TOOLS_HUNT_FAULT_REPORT_H_

#include <string>
#include <vector>

#include "tools/hunt/fault_verdict.h"
#include "tools/hunt/sabotage.h"

namespace qkvet::tools {

// A line for each fault, what is wrong below it, and the sums.
std::string faults_text(const FaultSummary& summary, const Hunt& hunt,
                        const HuntOptions& options);
// A line for each pair of a fault and the oracle that shares it.
std::string sabotage_text(const std::vector<SabotageLine>& lines);
// kLawFailed if some pair lives and no reason is known.
ExitCode sabotage_exit(const std::vector<SabotageLine>& lines);

// JSON Lines, schema 1: a line for each fault and law, one for each fault, one
// for each law under an oracle that shares the fault, and a summary.
std::string faults_json(const FaultSummary& summary, const Hunt& hunt,
                        const HuntOptions& options,
                        const std::vector<SabotageLine>& lines);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_HUNT_FAULT_REPORT_H_
