// SPDX-License-Identifier: Apache-2.0
// Checks that memory laws make of one call with its tensors in several places.
#ifndef QKVET_PROPERTIES_JUDGING_PLACEMENTS_H_
#define QKVET_PROPERTIES_JUDGING_PLACEMENTS_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// Whether a number between the inputs and an output may be kept in a format
// that ends at 65504, because of the storage or of the kernel's declaration.
// Another path for another address may then overflow; the bound shows where.
bool may_overflow_in_f16(const Case& value, const KernelInfo& kernel);

// The call in each placement; in f16 the first with its truth.
Plan plan_placements(const PlannedCall& call, const Case& value,
                     const KernelInfo& kernel);

// Judges such calls, or several groups of them: no number of an output is NaN
// in some placements alone, unless its bound lets it overflow.
Judgement judge_placements(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_PLACEMENTS_H_
