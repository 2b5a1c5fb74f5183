// SPDX-License-Identifier: Apache-2.0
// One prompt given to a cache in several ways.
#ifndef QKVET_PROPERTIES_CALLS_PROMPT_WAYS_H_
#define QKVET_PROPERTIES_CALLS_PROMPT_WAYS_H_

#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// The case's prompt in one step, and then in steps of the sizes of each way.
Plan plan_prompt_ways(const Case& value, const KernelInfo& kernel,
                      const std::vector<std::vector<int64_t>>& ways);

// Compares every row of every way with the same row of the one step.
Judgement judge_prompt_ways(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_PROMPT_WAYS_H_
