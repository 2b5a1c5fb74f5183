// SPDX-License-Identifier: Apache-2.0
// Part of fault_at(): whether the storage of a cache is wrong, or the attention
// over it, or both.
#ifndef QKVET_PROPERTIES_RUN_STORY_WHOSE_H_
#define QKVET_PROPERTIES_RUN_STORY_WHOSE_H_

#include <string>

#include "properties/checking/story_run.h"

namespace qkvet::properties {

// Sentences; "" if both are right, or undecided. `story` is steady.
std::string whose_fault(const StoryRun& story);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_STORY_WHOSE_H_
