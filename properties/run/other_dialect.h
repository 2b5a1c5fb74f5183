// SPDX-License-Identifier: Apache-2.0
// Whether a failure is one of convention: the kernel computes what another
// declaration would promise.
#ifndef QKVET_PROPERTIES_RUN_OTHER_DIALECT_H_
#define QKVET_PROPERTIES_RUN_OTHER_DIALECT_H_

#include <string>

#include "properties/checking/case_work.h"

namespace qkvet::properties {

// "" or one line that says as what the kernel would conform, which library has
// it so, and what to declare. `value` is the case that fails; the same must
// hold for planned cases of its kind.
std::string other_dialect(const Case& value, const JudgedKernel& kernel,
                          int index, Executor& executor, TimeUse& time);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_OTHER_DIALECT_H_
