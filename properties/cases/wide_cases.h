// SPDX-License-Identifier: Apache-2.0
// Cases made on purpose for extents at which a number that was given too few
// bits begins again: keys, rows, members and heads beyond 2^6 to 2^16. Chance
// brings each of them to a law a few times in a plan, or not at all.
#ifndef QKVET_PROPERTIES_CASES_WIDE_CASES_H_
#define QKVET_PROPERTIES_CASES_WIDE_CASES_H_

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// Of the general law, if the plan has it, narrow ones first: at most so many
// and so dear. A pure function of the plan.
std::vector<PairCase> wide_cases(const PairPlan& plan);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_WIDE_CASES_H_
