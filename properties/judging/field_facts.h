// SPDX-License-Identifier: Apache-2.0
// The effect of masks in a few numbers (kernel.h) on a row, besides which keys
// it sees: words of conditions (conditions/condition_names.cpp).
#ifndef QKVET_PROPERTIES_JUDGING_FIELD_FACTS_H_
#define QKVET_PROPERTIES_JUDGING_FIELD_FACTS_H_

#include <vector>

#include "core/case/case.h"

namespace qkvet::properties {

// Facts about a row. They count keys that the causal rule and the window show
// it, except for taken_back.
struct FieldFacts {
  bool padding = false;  // its segment number is below 0: padding
  // Keys of other segments with numbers that have the same lower 32 bits as its
  // own.
  int64_t alike = 0;
  // The largest power of two that divides a key, other than the first, at which
  // its segment begins or after which it ends; 0: there is none.
  int64_t border = 0;
  // Keys of its range that the causal rule or the window would hide.
  int64_t taken_back = 0;
  int64_t aside = 0;  // drafts before it that it does not follow
};

// One for every row [B,Tq], empty for rows that no member counts. Empty for a
// case that has none of these masks. Cost: one pass over all pairs.
std::vector<FieldFacts> field_facts(const Case& value, const Inputs& inputs);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_FIELD_FACTS_H_
