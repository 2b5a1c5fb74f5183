// SPDX-License-Identifier: Apache-2.0
// What an outcome says before any law looks at the numbers.
#ifndef QKVET_PROPERTIES_JUDGING_OUTCOME_H_
#define QKVET_PROPERTIES_JUDGING_OUTCOME_H_

#include <optional>

#include "properties/judging/law.h"

namespace qkvet::properties {

// A verdict if the call did not end as it should: refused, crashed, touched
// what it must not, left something unwritten. Nothing if the law may judge.
std::optional<Judgement> judge_outcome(const PlannedCall& planned,
                                       const CallOutcome& outcome);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_OUTCOME_H_
