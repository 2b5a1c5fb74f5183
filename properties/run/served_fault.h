// SPDX-License-Identifier: Apache-2.0
// Whose fault a wrong answer over given pages is: whether what other members
// hold, or what nobody owns, reaches it. Found by calling the kernel again with
// other data there.
#ifndef QKVET_PROPERTIES_RUN_SERVED_FAULT_H_
#define QKVET_PROPERTIES_RUN_SERVED_FAULT_H_

#include "properties/run/story_fault.h"

namespace qkvet::properties {

// Whose fault it is that a case with pages fails under some law; nothing for
// other cases, and where the kernel does not give the same bits every time.
StoryFault served_fault(const Case& value, const JudgedKernel& kernel,
                        int index, Executor& executor, TimeUse& time);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_SERVED_FAULT_H_
