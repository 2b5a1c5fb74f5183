// SPDX-License-Identifier: Apache-2.0
// Cases made on purpose for extents at which a number that was given too few
// bits begins again: keys, rows, members and heads beyond 2^6 to 2^16, and
// lengths, windows and pages that count as many keys. Chance
// brings each of them to a law a few times in a plan, or not at all.
#ifndef QKVET_PROPERTIES_CASES_WIDE_CASES_H_
#define QKVET_PROPERTIES_CASES_WIDE_CASES_H_

#include <array>
#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// What a run asks after its first round, its second, its third, and behind its
// plan: all keys and up to 2^12 of the others, which cost a tenth of a second
// together; the others beyond, about half of one; up to 2^12 with a further
// option; and keys beyond with one. What fails late in a plan is not reported
// much later for them.
inline constexpr size_t kWideTurns = 4;
using WideCases = std::array<std::vector<PairCase>, kWideTurns>;

// Of the general law, if the plan has it, narrow ones first: at most so many
// and so dear. A pure function of the plan.
WideCases wide_cases(const PairPlan& plan);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_WIDE_CASES_H_
