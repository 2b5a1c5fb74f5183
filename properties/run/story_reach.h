// SPDX-License-Identifier: Apache-2.0
// Part of fault_at(): tokens that reach an answer and should not.
#ifndef QKVET_PROPERTIES_RUN_STORY_REACH_H_
#define QKVET_PROPERTIES_RUN_STORY_REACH_H_

#include "properties/checking/story_run.h"
#include "properties/run/story_fault.h"

namespace qkvet::properties {

// Whether the story gives the same bits every time; also false if it does not
// finish.
bool is_steady(const StoryRun& story);

// `story` is steady.
std::vector<Reach> find_reaches(const StoryRun& story);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_STORY_REACH_H_
