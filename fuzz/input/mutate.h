// SPDX-License-Identifier: Apache-2.0
// Changes of a case that keep it legal: of its structure (extents, options,
// storage, commands) and of its numbers. The steps are small, because an engine
// climbs through neighbours; sometimes a piece of another case is taken.
#ifndef QKVET_FUZZ_INPUT_MUTATE_H_
#define QKVET_FUZZ_INPUT_MUTATE_H_

#include "fuzz/input/input.h"
#include "properties/cases/draw.h"

namespace qkvet::fuzz {

// One to four changes; `values_percent` of them are changes of numbers.
FuzzInput mutated(const FuzzInput& input, const InputRules& rules,
                  int values_percent, Draw& draw);

// `a` with some of what `b` has, where both are of one subject.
FuzzInput crossed(const FuzzInput& a, const FuzzInput& b,
                  const InputRules& rules, Draw& draw);

// In mutate_values.cpp: one change of the numbers of a case, which may then be
// illegal. `recipes`: also of how they are made.
void change_values(Case& value, bool recipes, Draw& draw);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_INPUT_MUTATE_H_
