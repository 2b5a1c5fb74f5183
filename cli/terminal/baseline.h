// SPDX-License-Identifier: Apache-2.0
// A comparison of a run with an earlier one: only changes for the worse fail
// it.
#ifndef QKVET_CLI_TERMINAL_BASELINE_H_
#define QKVET_CLI_TERMINAL_BASELINE_H_

#include <optional>
#include <string>

#include "cli/terminal/report_parts.h"

namespace qkvet::cli {

// Absent without a baseline, or if it has no such result.
std::optional<BaselineLine> baseline_of(const ReportInput& input,
                                        const ResultLine& result);
// Whether the law failed in the baseline, too, at least as badly.
bool is_no_worse(const ReportInput& input, const KernelResult& kernel,
                 const Failure& failure);

// Results that the baseline has, that were to be judged here, and that are
// missing: "scalar/plain", or "scalar/plain rows_stay_in_hull".
Texts gone_since_baseline(const ReportInput& input);

// Changes for the worse and for the better; "" without a baseline.
std::string baseline_text(const Shown& shown);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_BASELINE_H_
