// SPDX-License-Identifier: Apache-2.0
// Finds failures of convention: the kernel computes what another declaration
// would promise.
#ifndef QKVET_PROPERTIES_RUN_OTHER_DIALECT_H_
#define QKVET_PROPERTIES_RUN_OTHER_DIALECT_H_

#include <string>

#include "properties/checking/case_work.h"

namespace qkvet::properties {

// "", or one line with the dialect to which the kernel would conform, the
// library that has it, and what to declare. `value` is the failing case;
// planned cases of its kind must also conform.
std::string other_dialect(const Case& value, const JudgedKernel& kernel,
                          int index, Executor& executor, TimeUse& time);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_OTHER_DIALECT_H_
