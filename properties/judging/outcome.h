// SPDX-License-Identifier: Apache-2.0
// The verdict from an outcome alone, before any law judges the numbers.
#ifndef QKVET_PROPERTIES_JUDGING_OUTCOME_H_
#define QKVET_PROPERTIES_JUDGING_OUTCOME_H_

#include <optional>

#include "properties/judging/law.h"

namespace qkvet::properties {

// A verdict if the call did not end as it should: refused, crashed, forbidden
// accesses, missing writes. Nullopt if the law may judge.
// The reason of a call that was not supported.
inline About refusal_is_about(const CallOutcome& outcome) {
  return outcome.undeclared     ? About::kDeclaration
         : outcome.asked_kernel ? About::kKernel
                                : About::kOther;
}

std::optional<Judgement> judge_outcome(const PlannedCall& planned,
                                       const CallOutcome& outcome);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_OUTCOME_H_
