// SPDX-License-Identifier: Apache-2.0
// Cases for a law, and smaller ones out of a failing one.
#ifndef QKVET_PROPERTIES_CASES_GENERATE_H_
#define QKVET_PROPERTIES_CASES_GENERATE_H_

#include <string>
#include <vector>

#include "properties/cases/scope.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// The random stream of a law's cases, derived from its name, so that a new law
// moves no case of another one. No two laws have the same.
uint32_t stream_of(const Law& law);

// Case number `number` of the plan with this seed: a pure function.
Case planned_case(const Law& law, uint64_t seed, int64_t number,
                  const Scope& scope = {});

// "not declared: masks" if every case of the law has an option that no kernel
// of the scope declares, so that all of them would be refused; "" for others.
std::string undeclared_need(const Law& law, const Scope& scope);

// Simpler cases that meet the law's precondition, the simplest first; with or
// without all of the tiniest shapes, of which there are a thousand.
std::vector<Case> simpler_cases(const Law& law, const Case& value,
                                bool tries_tiny = true);

// Whether the data goes beyond what the bound can judge everywhere. Such cases
// do not make a run count as mostly uninformative.
bool is_stress(const Case& value);

// Whether it has more rows, keys or tokens than cases that are not long.
bool is_long(const Case& value);

// B + H + Hkv + Tq + Tk + d + dv.
int64_t sum_of_extents(const Shape& shape);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_GENERATE_H_
