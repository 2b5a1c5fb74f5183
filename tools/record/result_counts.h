// SPDX-License-Identifier: Apache-2.0
// The counts of a result, to and from a record.
#ifndef QKVET_TOOLS_RECORD_RESULT_COUNTS_H_
#define QKVET_TOOLS_RECORD_RESULT_COUNTS_H_

#include "core/base/json.h"
#include "properties/run/tally.h"

namespace qkvet::tools {

// "inf" and "-inf" where it is infinite, which has no spelling in JSON.
Json json_number(double value);

// Into the line of the cell.
void add_counts(const Cell& cell, Json& result);
// Without failures.
Tally tally_of(const Json& result);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_RECORD_RESULT_COUNTS_H_
