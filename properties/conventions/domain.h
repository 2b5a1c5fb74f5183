// SPDX-License-Identifier: Apache-2.0
// The options of attention that a law allows, and the nearest case with only
// those.
#ifndef QKVET_PROPERTIES_CONVENTIONS_DOMAIN_H_
#define QKVET_PROPERTIES_CONVENTIONS_DOMAIN_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// Those of kCaseOptions that are among the bits, in their order.
std::vector<uint64_t> single_options(uint64_t options);

// The options that a law allows, and those that it is about: `allows` and
// `about`, and all that follow from them.
uint64_t allowed_in(const Domain& domain);
uint64_t about_in(const Domain& domain);

// "windows, masks": the names of those that are not among these
// QKVET_OPTION_*; "" if all are.
std::string undeclared_options(uint64_t declared);

// "windows, masks": the names of these options of a case.
std::string option_names(uint64_t allowed);

// The options of the case.
uint64_t options_of(const Case& value);

// Gives the pages of a case a form of table that `allows` contains, if there is
// one.
void keep_table_allowed(uint64_t allows, Case& value);

// Takes away the options that are not among `allows`; extents of 0 become 1.
Case keep_allowed(Case value, uint64_t allows);
// Takes these options out, and nothing that depends on them.
void drop_options(uint64_t options, Case& value);

// Moves single values (set=) outside of their tensors inside; false if there
// are none. If two are in one place, the first stays.
bool move_set_values(Case& value);

// The nearest case that the law is about: allowed options, then constrain(),
// then lengths that fit the extents. Idempotent.
Case constrained(const Law& law, Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONVENTIONS_DOMAIN_H_
