// SPDX-License-Identifier: Apache-2.0
// Which options of attention a law allows, and the nearest case that it does.
#ifndef QKVET_PROPERTIES_CONVENTIONS_DOMAIN_H_
#define QKVET_PROPERTIES_CONVENTIONS_DOMAIN_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// The options that these bits of Domain::allows speak of, and the other way
// round.
uint64_t options_allowed(uint32_t allowed);
uint32_t allowed_of(uint64_t options);

// What a law allows, and what it is about: `allows` and `about`, and what
// follows from them.
uint32_t allowed_in(const Domain& domain);
uint32_t about_in(const Domain& domain);

// "masks, windows": the names of those that are not among these
// QKVET_OPTION_*; "" if all are.
std::string undeclared_options(uint64_t declared);

// "masks, windows": the names of these bits of Domain::allows.
std::string option_names(uint32_t allowed);

// What the case has, as bits of Domain::allows.
uint32_t options_of(const Case& value);

// Gives the pages of a case the form of table that is among `allows`, if one
// is.
void keep_table_allowed(uint32_t allows, Case& value);

// Takes away the options that are not among `allows`; extents of 0 become 1.
Case keep_allowed(Case value, uint32_t allows);

// Gives single values (set=) that stand outside of their tensors a place
// inside; false if none did. Of two in one place the first stays.
bool move_set_values(Case& value);

// The nearest case that the law is about: allowed options, then constrain(),
// then lengths that fit the extents. Idempotent.
Case constrained(const Law& law, Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONVENTIONS_DOMAIN_H_
