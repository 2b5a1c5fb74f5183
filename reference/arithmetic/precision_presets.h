// SPDX-License-Identifier: Apache-2.0
// Inside of precision: the presets, and block adders (bounds.md, "Presets").
#ifndef QKVET_REFERENCE_ARITHMETIC_PRECISION_PRESETS_H_
#define QKVET_REFERENCE_ARITHMETIC_PRECISION_PRESETS_H_

#include <cstdint>

#include "reference/arithmetic/precision.h"

namespace qkvet::reference {

// QKVET_PRECISION_*, one that has a derivation; generic for any other.
PrecisionModel preset_precision(int32_t preset);

// Tensor cores add what is added over channels and over keys.
void add_in_blocks(PrecisionModel& model);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_PRECISION_PRESETS_H_
