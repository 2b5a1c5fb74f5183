// SPDX-License-Identifier: Apache-2.0
// Stories of a cache like a failing one, that show more of what it holds.
#ifndef QKVET_DIAGNOSIS_EVIDENCE_STORIES_H_
#define QKVET_DIAGNOSIS_EVIDENCE_STORIES_H_

#include <optional>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

Case with_story(Case value, Story story);

// Data of which every token is another.
Case with_own_tokens(Case value);

// The story with the commands that the law has put in, which bring tokens as
// all others do; nothing: it is none.
std::optional<Case> with_commands_of_law(const Law& law, const Case& value,
                                         Witness& witness);

// One query of every sequence that holds tokens, behind every command.
Case with_queries_behind_all(const Case& value);

// The same behind the last command of `story` alone. Nothing: none of them
// holds any.
std::optional<Case> with_queries_behind(const Case& value, Story story);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_EVIDENCE_STORIES_H_
