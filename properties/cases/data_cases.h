// SPDX-License-Identifier: Apache-2.0
// Cases of gradients for every kind of data: each in a call of one row, and in
// one of several. A step of decoding often has a path of its own. By chance,
// one of fourteen kinds of data would reach it, under the one law of sixteen
// that judges all of it, only after some two thousand cases.
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
