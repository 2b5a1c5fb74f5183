// SPDX-License-Identifier: Apache-2.0
// Calls through plans (qkvet/plan.h), and the batches of one capacity that laws
// plan for.
#ifndef QKVET_PROPERTIES_JUDGING_PLAN_CALLS_H_
#define QKVET_PROPERTIES_JUDGING_PLAN_CALLS_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// Options that laws about plans allow. Appended tokens are excluded: a plan
// fixes their place, and run() has no argument for it.
inline constexpr uint64_t kAllowPlanned = QKVET_OPTION_ROPE | kAllowPairs |
                                          kAllowScores | kOptionLayout |
                                          QKVET_OPTION_PAGED;
// The options that give members lengths.
inline constexpr uint32_t kAboutLengths =
    QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED | QKVET_OPTION_PAGED;

enum class Batch : uint8_t {
  kCase,   // the case as it is
  kFull,   // all rows and keys that there are
  kTurned  // the members in the reverse order of their lengths
};
Case batch_of(Case value, Batch batch);

// The case with lengths that leave out a key of some member, unless they
// already leave one out.
Case with_a_smaller_batch(Case value);

// o and lse of the batch, with their truth.
PlannedCall call_with_plan(const Case& value, const KernelInfo& kernel,
                           Batch batch, PlanUse use, int slot = 0);

// Call n against its truth, which is a call's own.
Judgement judge_of_call(const JudgeInput& input, size_t n);

// Adds call n to a judgement; false if the call is wrong. `looks` describes the
// mistake.
bool must_be_right(const JudgeInput& input, size_t n, const char* looks,
                   Judgement& judgement);

// For a call without which nothing about plans can be judged: false, with the
// verdict GaveUp, if it is wrong.
bool is_right_by_itself(const JudgeInput& input, size_t n,
                        Judgement& judgement);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_PLAN_CALLS_H_
