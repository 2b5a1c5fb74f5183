// SPDX-License-Identifier: Apache-2.0
// A run beside an earlier one: only what got worse fails it.
#ifndef QKVET_TOOLS_REPORT_BASELINE_H_
#define QKVET_TOOLS_REPORT_BASELINE_H_

#include <string>
#include <vector>

#include "core/base/json.h"
#include "tools/report/report.h"

namespace qkvet::tools {

// {"verdict", "worse"} of a cell; null without a baseline, or where this one
// says nothing of the kernel under the law.
Json baseline_of(const ReportInput& input, const KernelResult& kernel,
                 const Cell& cell);
// Whether the law failed in the baseline, and not less badly.
bool is_no_worse(const ReportInput& input, const KernelResult& kernel,
                 const Failure& failure);

// What was judged in the baseline, was to be judged here, and is in no result:
// "scalar/plain", or "scalar/plain rows_stay_in_hull".
std::vector<std::string> gone_since_baseline(const ReportInput& input);

// What got worse and what got better; "" without a baseline.
std::string baseline_text(const ReportInput& input, size_t width);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPORT_BASELINE_H_
