// SPDX-License-Identifier: Apache-2.0
// Lists of keys in other forms: edits of laws about forward() and about
// gradients.
#ifndef QKVET_PROPERTIES_CHECKING_LIST_CASES_H_
#define QKVET_PROPERTIES_CHECKING_LIST_CASES_H_

#include "core/case/case.h"

namespace qkvet::properties {

// The case with lists of at least this many entries.
Case with_lists(Case value, int64_t entries);
// With lists of at least as many entries as there are keys, or blocks.
Case with_room_for_all_keys(Case value);

// The entries that count, the last one first, and turned by some.
void lists_in_other_order(const Case& value, int64_t, Inputs& inputs);
// All keys, from one that depends on the row, and -1 after them.
void lists_of_all_keys(const Case& value, int64_t, Inputs& inputs);
// For variants without lists: without them; and without them but with a mask of
// the same pairs, for which with_own_mask() has made room.
void no_lists(const Case& value, int64_t, Inputs& inputs);
void lists_as_mask(const Case& value, int64_t, Inputs& inputs);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_LIST_CASES_H_
