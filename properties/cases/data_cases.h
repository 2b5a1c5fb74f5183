// SPDX-License-Identifier: Apache-2.0
// Cases of gradients made on purpose for data: each kind of it in a call of one
// row, and in one of several. A step of decoding often has a path of its own,
// and chance brings it one of fourteen kinds of data under the one law of
// sixteen that looks at all of it some two thousand cases from the first.
#ifndef QKVET_PROPERTIES_CASES_DATA_CASES_H_
#define QKVET_PROPERTIES_CASES_DATA_CASES_H_

#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// Cases of the law of agreement, if the plan has it: small, without options,
// and at most as many as the plan allows. A pure function of the plan.
std::vector<PairCase> data_cases(const PairPlan& plan);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_DATA_CASES_H_
