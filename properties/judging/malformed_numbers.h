// SPDX-License-Identifier: Apache-2.0
// Lengths and starts of members that contradict the extents of their call: the
// mistakes (core/call/call.h) that are made in numbers.
#ifndef QKVET_PROPERTIES_JUDGING_MALFORMED_NUMBERS_H_
#define QKVET_PROPERTIES_JUDGING_MALFORMED_NUMBERS_H_

#include "core/base/floors.h"
#include "core/call/call.h"
#include "core/case/case.h"

namespace qkvet::properties {

// Whether the case has lengths, or starts, in which the mistake can be made
// with the rest of the call still correct.
bool can_be_made(Mistake mistake, const Case& value);

// Puts the mistake into the stored numbers of the case; mistakes of other kinds
// change nothing.
void spoil_numbers(Mistake mistake, const Case& value, Inputs& inputs);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_MALFORMED_NUMBERS_H_
