// SPDX-License-Identifier: Apache-2.0
// Where a run was made, for its record.
#ifndef QKVET_TOOLS_REPORT_ENVIRONMENT_H_
#define QKVET_TOOLS_REPORT_ENVIRONMENT_H_

#include "core/base/json.h"

namespace qkvet::tools {

// "qkvet" (its version), "compiler" (that built it), "cpu", "cores", "system",
// "machine", and "began", the time of this call in UTC.
Json environment_json();

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPORT_ENVIRONMENT_H_
