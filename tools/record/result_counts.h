// SPDX-License-Identifier: Apache-2.0
// The counts of a result, to and from a record.
#ifndef QKVET_TOOLS_RECORD_RESULT_COUNTS_H_
#define QKVET_TOOLS_RECORD_RESULT_COUNTS_H_

#include "core/base/json.h"
#include "properties/run/tally.h"

namespace qkvet::tools {

// Into the line of the cell.
void add_counts(const Cell& cell, Json& result);
// Without failures.
Tally tally_of(const Json& result);

// {"settings": [names], "met": ["01-0", one a setting]}, where "-" is a pair
// that no case has, "added", where cases were, and of triples "triples" and
// "possible_triples", where they are known; what is no such thing is
// nothing at all.
Json json_of(const properties::MetPairs& pairs);
properties::MetPairs met_pairs_of(const Json& json);
// "2,913 of 3,120 possible pairs of 71 settings met in a call, 80 of them in
// added cases; and 21,034 of 30,120 possible triples, whose pairs all met".
std::string pairs_met_text(const properties::MetPairs& pairs);
// The same and "; never: windows with pages, and 206 more", or "" where there
// were no calls.
std::string pairs_text(const properties::MetPairs& pairs);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_RECORD_RESULT_COUNTS_H_
