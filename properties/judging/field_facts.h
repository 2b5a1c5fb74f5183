// SPDX-License-Identifier: Apache-2.0
// What masks in a few numbers (kernel.h) say of a row, beyond which keys it
// sees: words of conditions (conditions/condition_names.cpp).
#ifndef QKVET_PROPERTIES_JUDGING_FIELD_FACTS_H_
#define QKVET_PROPERTIES_JUDGING_FIELD_FACTS_H_

#include <vector>

#include "core/case/case.h"

namespace qkvet::properties {

// Of keys that the causal rule and the window show it, but for taken_back.
struct FieldFacts {
  bool padding = false;  // its segment has a number below 0, and is none
  // Keys of other segments whose numbers have the same lower 32 bits as its
  // own.
  int64_t alike = 0;
  // The largest power of two that divides all keys, but the first, at which its
  // segment begins or behind which it ends; 0: there are none.
  int64_t border = 0;
  // Keys of its range that the causal rule or the window would hide.
  int64_t taken_back = 0;
  int64_t aside = 0;  // drafts in front of it that it does not follow
};

// Of every row [B,Tq]; of those that no member counts, nothing. Empty for a
// case that has none of these masks. Cost: one pass over all pairs.
std::vector<FieldFacts> field_facts(const Case& value, const Inputs& inputs);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_FIELD_FACTS_H_
