// SPDX-License-Identifier: Apache-2.0
// Laws that earlier answers cannot judge.
#ifndef QKVET_PROPERTIES_JUDGING_NEEDS_A_RUN_H_
#define QKVET_PROPERTIES_JUDGING_NEEDS_A_RUN_H_

#include <string>

#include "properties/judging/law.h"

namespace qkvet::properties {

// "", or why the law needs a kernel that runs: it observes memory, threads, or
// a second answer to one call.
std::string needs_a_run(const Law& law);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_NEEDS_A_RUN_H_
