// SPDX-License-Identifier: Apache-2.0
// Cases made on purpose for triples of settings that no case of a plan had, nor
// those made for pairs. There are too many for all of them: three options come
// first, and another seed tries others.
#ifndef QKVET_PROPERTIES_CASES_TRIPLE_CASES_H_
#define QKVET_PROPERTIES_CASES_TRIPLE_CASES_H_

#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// A pure function of the plan, whose pairs have all been met that will be, and
// of the triples that each kernel has met.
std::vector<PairCase> cases_for_triples(const PairPlan& plan,
                                        const std::vector<TripleSet>& met);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_TRIPLE_CASES_H_
