// SPDX-License-Identifier: Apache-2.0
// The machine of a run, for its record.
#ifndef QKVET_TOOLS_REPORT_ENVIRONMENT_H_
#define QKVET_TOOLS_REPORT_ENVIRONMENT_H_

#include "tools/record/run_record.h"

namespace qkvet::tools {

// This machine; `began` is the time of this call.
Environment environment();

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPORT_ENVIRONMENT_H_
