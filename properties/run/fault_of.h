// SPDX-License-Identifier: Apache-2.0
// The source of the wrong answer of a case that fails under a law.
#ifndef QKVET_PROPERTIES_RUN_FAULT_OF_H_
#define QKVET_PROPERTIES_RUN_FAULT_OF_H_

#include "properties/sequences/story_fault.h"

namespace qkvet::properties {

// For a cache, fault_at() its wrong answer. For attention over given pages,
// whether data of other members, or unowned data, reaches it, found by calling
// the kernel again with other data there. Empty for other cases, and if the
// kernel does not give the same bits every time.
StoryFault fault_of(const Law& law, const Case& value,
                    const Judgement& judgement, const JudgedKernel& kernel,
                    int index, Executor& executor, TimeUse& time);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_FAULT_OF_H_
