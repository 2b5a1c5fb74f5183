// SPDX-License-Identifier: Apache-2.0
// A single judgement as a cell of a report.
#ifndef QKVET_PROPERTIES_RUN_ONE_CELL_H_
#define QKVET_PROPERTIES_RUN_ONE_CELL_H_

#include "properties/run/runner.h"

namespace qkvet::properties {

// Without the failure, which the caller adds.
Cell one_cell(const Law& law, const Judgement& judgement, double seconds);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_ONE_CELL_H_
