// SPDX-License-Identifier: Apache-2.0
// The output of `qkvet check --faults`, for people and for programs.
#ifndef QKVET_CLI_HUNT_FAULT_REPORT_H_
#define QKVET_CLI_HUNT_FAULT_REPORT_H_

#include <string>

#include "cli/hunt/fault_verdict.h"

namespace qkvet::cli {

// A line for each fault, its problems below it, and the sums.
std::string faults_text(const FaultSummary& summary, const Hunt& hunt,
                        const HuntOptions& options);
// JSON Lines, schema 1: a line for each fault and law, one for each fault, and
// a summary.
std::string faults_json(const FaultSummary& summary, const Hunt& hunt,
                        const HuntOptions& options);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_FAULT_REPORT_H_
