// SPDX-License-Identifier: Apache-2.0
// The source of a wrong answer over given pages: whether data of other members,
// or unowned data, reaches it. Found by calling the kernel again with other
// data there.
#ifndef QKVET_PROPERTIES_RUN_SERVED_FAULT_H_
#define QKVET_PROPERTIES_RUN_SERVED_FAULT_H_

#include "properties/run/story_fault.h"

namespace qkvet::properties {

// The source of the failure of a case with pages under some law; empty for
// other cases, and if the kernel does not give the same bits every time.
StoryFault served_fault(const Case& value, const JudgedKernel& kernel,
                        int index, Executor& executor, TimeUse& time);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_SERVED_FAULT_H_
