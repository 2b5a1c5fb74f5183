// SPDX-License-Identifier: Apache-2.0
// Cases for extents at which a number with too few bits wraps around: keys,
// rows, members and heads beyond 2^6 to 2^16, and lengths, windows and pages
// that count as many keys. By chance, a law gets each of them a few times in a
// plan, or never.
#ifndef QKVET_PROPERTIES_CASES_WIDE_CASES_H_
#define QKVET_PROPERTIES_CASES_WIDE_CASES_H_

#include <array>
#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// The wide cases that a run asks after its first round, its second, its third,
// and after its plan:
//   - all keys, and up to 2^12 of the others: a tenth of a second together;
//   - larger extents of the others: about half a second;
//   - up to 2^12 with a further option;
//   - larger numbers of keys with one.
// A failure late in a plan is not reported much later because of them.
inline constexpr size_t kWideTurns = 4;
using WideCases = std::array<std::vector<PairCase>, kWideTurns>;

// Cases of the general law, if the plan has it, narrow ones first: at most as
// many, and as expensive, as the plan allows. A pure function of the plan.
WideCases wide_cases(const PairPlan& plan);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_WIDE_CASES_H_
