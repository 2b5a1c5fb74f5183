// SPDX-License-Identifier: Apache-2.0
// Stories similar to a failing one that reveal more of a cache's contents.
#ifndef QKVET_DIAGNOSIS_EVIDENCE_STORIES_H_
#define QKVET_DIAGNOSIS_EVIDENCE_STORIES_H_

#include <optional>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

Case with_story(Case value, Story story);

// Data with distinct tokens.
Case with_own_tokens(Case value);

// The story with the commands that the law inserts; they append tokens like
// others. Nullopt: the case is no story.
std::optional<Case> with_commands_of_law(const Law& law, const Case& value,
                                         Witness& witness);

// Adds one query of every non-empty sequence after every command.
Case with_queries_behind_all(const Case& value);

// The same after the last command of `story` alone. Nullopt: no sequence has
// tokens.
std::optional<Case> with_queries_behind(const Case& value, Story story);

// The same with `times` as many tokens in every command, and as much more room.
// It reveals pages of another size that one page of tokens would hide.
Case with_more_tokens(Case value, int64_t times);

// Adds one sequence, which receives tokens after every command that takes some
// away. Nullopt: there is no such command, or no room for another sequence.
std::optional<Case> with_a_newcomer(Case value);

// After every command that changes a sequence, adds a query of other sequences:
// all that share tokens with it, and some that do not. It shows at once what
// the command does to them.
Case with_queries_of_others(const Case& value);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_EVIDENCE_STORIES_H_
