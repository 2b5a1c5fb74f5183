// SPDX-License-Identifier: Apache-2.0
// Which options of attention a law admits, and the nearest case that it does.
#ifndef QKVET_PROPERTIES_ADMIT_H_
#define QKVET_PROPERTIES_ADMIT_H_

#include "properties/law.h"

namespace qkvet {

// What the case has, as bits of Aim::admits.
uint32_t options_of(const Case& value);

// Takes away the options that are not among `admits`; extents of 0 become 1.
Case keep_admitted(Case value, uint32_t admits);

// The nearest case that the law is about: admitted options, then fit(), then
// lengths that fit the extents. Idempotent.
Case fitted(const Law& law, Case value);

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_ADMIT_H_
