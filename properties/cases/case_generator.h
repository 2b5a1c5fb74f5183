// SPDX-License-Identifier: Apache-2.0
// The generator of planned_case(), for code that shrinks its cases. Not in
// generate.h, because RapidCheck is the slowest header here: only three files
// include it.
#ifndef QKVET_PROPERTIES_CASES_CASE_GENERATOR_H_
#define QKVET_PROPERTIES_CASES_CASE_GENERATOR_H_

#include <rapidcheck.h>

#include "properties/cases/scope.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// Cases that meet the law's precondition, aimed: extents at 1, primes, lane
// and tile multiples and their neighbours; every data preset; every head
// ratio; Tq below, at and above Tk. Shrinkable.
rc::Gen<Case> case_generator(const Law& law, const Scope& scope = {});

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_CASE_GENERATOR_H_
