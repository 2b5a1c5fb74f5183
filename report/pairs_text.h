// SPDX-License-Identifier: Apache-2.0
// The settings that met in a call, in words.
#ifndef QKVET_REPORT_PAIRS_TEXT_H_
#define QKVET_REPORT_PAIRS_TEXT_H_

#include <string>

#include "properties/cases/pair_coverage.h"

namespace qkvet::report {

// "2,913 of 3,120 possible pairs of 71 settings met in a call, 80 of them in
// added cases; and 21,034 of 30,120 possible triples, whose pairs all met".
std::string pairs_met_text(const properties::MetPairs& pairs);
// The same and "; never: windows with pages, and 206 more", or "" without
// calls.
std::string pairs_text(const properties::MetPairs& pairs);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_PAIRS_TEXT_H_
