// SPDX-License-Identifier: Apache-2.0
// One member of a batch, be it bounded by lengths or packed, as a call of its
// own.
#ifndef QKVET_PROPERTIES_CALLS_MEMBER_PART_H_
#define QKVET_PROPERTIES_CALLS_MEMBER_PART_H_

#include "properties/calls/call_pairs.h"

namespace qkvet::properties {

// The member whose turn it is by the seed, or the next one with queries and
// keys; -1 if there is none.
int64_t chosen_member(const Case& value);

// A packed batch of two members, of the extents that the case has: no more rows
// than before, so that shrinking ends.
Case with_two_members(Case value);

// The case as it is, and its chosen member alone: B = 1, no lengths,
// contiguous, the inputs cut out of those of the case.
Plan plan_member(const Case& value, const KernelInfo& kernel);

// The rows of that member in both calls, each within its own bound.
Judgement judge_member(const JudgeInput& input, CallPair pair);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_MEMBER_PART_H_
