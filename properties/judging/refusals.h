// SPDX-License-Identifier: Apache-2.0
// For laws about calls that every kernel must refuse.
#ifndef QKVET_PROPERTIES_JUDGING_REFUSALS_H_
#define QKVET_PROPERTIES_JUDGING_REFUSALS_H_

#include <utility>

#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// Every call must be refused with a reason; `text_of` describes the mistake in
// a call that is not.
inline Judgement judge_refusals(const JudgeInput& input,
                                const char* (*text_of)(Mistake)) {
  Judgement judgement;
  for (const CallView& call : input.calls) {
    ++judgement.compared;
    const bool refused = call.outcome->status != CallStatus::kDone;
    if (refused && call.outcome->gave_reason) continue;
    Finding finding;
    finding.where = text_of(call.planned->mistake);
    finding.expected = "refused with a reason";
    finding.actual = refused ? "refused without a reason" : "accepted";
    add_failure(judgement, std::move(finding));
    return judgement;
  }
  return judgement;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_REFUSALS_H_
