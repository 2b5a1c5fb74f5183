// SPDX-License-Identifier: Apache-2.0
// Rotations without rounding: every angle is a number of quarter turns, every
// cos and sin 0, 1 or -1.
#ifndef QKVET_PROPERTIES_CALLS_QUARTER_TURNS_H_
#define QKVET_PROPERTIES_CALLS_QUARTER_TURNS_H_

#include "core/base/floors.h"
#include "core/case/case.h"

namespace qkvet::properties {

// Fills the tables of the inputs for `rows` positions. A step of one position
// is one, two or three quarter turns, in turns from pair to pair.
void quarter_turns(const Case& value, int64_t rows, Inputs& inputs);

// Applies those tables to q and k, and removes the rotation from the inputs.
// Values are moved and negated, never computed, so NaN stays NaN.
void turn_by_hand(const Case& value, Inputs& inputs);

// The nearest case with a rotation; none with an odd number of channels.
Case with_rotation(Case value);
}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_QUARTER_TURNS_H_
