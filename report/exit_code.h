// SPDX-License-Identifier: Apache-2.0
// Exit codes. If several apply, the order is 2 > 4 > 1 > 3 > 0.
#ifndef QKVET_REPORT_EXIT_CODE_H_
#define QKVET_REPORT_EXIT_CODE_H_

#include "core/base/floors.h"

namespace qkvet::report {

enum ExitCode : int {
  kConforms = 0,        // every selected kernel passed, none failed
  kLawFailed = 1,       // a law failed, the memory law included
  kWrongUse = 2,        // bad input: one line on stderr
  kNothingChecked = 3,  // a kernel passed nothing, or verdicts are open
  kKernelDied = 4       // a kernel crashed, hung or ran out of memory
};

}  // namespace qkvet::report

#endif  // QKVET_REPORT_EXIT_CODE_H_
