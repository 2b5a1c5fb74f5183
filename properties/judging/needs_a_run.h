// SPDX-License-Identifier: Apache-2.0
// What answers that were given before cannot show.
#ifndef QKVET_PROPERTIES_JUDGING_NEEDS_A_RUN_H_
#define QKVET_PROPERTIES_JUDGING_NEEDS_A_RUN_H_

#include <string>

#include "properties/judging/law.h"

namespace qkvet::properties {

// "" or why the law needs a kernel that runs: it looks at memory, at threads,
// or at a second answer to one call.
std::string needs_a_run(const Law& law);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_NEEDS_A_RUN_H_
