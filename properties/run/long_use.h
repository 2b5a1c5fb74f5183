// SPDX-License-Identifier: Apache-2.0
// Helpers of laws about thousands of equal calls.
#ifndef QKVET_PROPERTIES_RUN_LONG_USE_H_
#define QKVET_PROPERTIES_RUN_LONG_USE_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// The calls that compare the case with its definition, in a new process, and
// then the same ones thousands of times.
Plan plan_long_use(const Case& value, const KernelInfo& kernel);

// Each has the bits of the first, or is within its bound if the kernel is
// nondeterministic, and leaves nothing after it.
Judgement judge_long_use(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_LONG_USE_H_
