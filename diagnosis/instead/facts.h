// SPDX-License-Identifier: Apache-2.0
// What a failing case shows besides wrong numbers: how a call ends that gives
// no answer, and what a cache reads back in the place of a token.
#ifndef QKVET_DIAGNOSIS_INSTEAD_FACTS_H_
#define QKVET_DIAGNOSIS_INSTEAD_FACTS_H_

#include <optional>
#include <string>
#include <vector>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

// Of one case, what says most in front: "append ends its process".
using Facts = std::vector<std::string>;

// Of the first call that ends as none should; empty: all end as they should.
Facts facts_of_calls(const Evidence& evidence, const JudgedKernel& kernel);

// Of the first read_back() that gives other tokens than it should, of a case
// whose tokens are all unlike: "the wrong keys that are read back are those of
// the token in front". Nothing: all are right, or nothing is known.
std::optional<Facts> facts_of_storage(const Evidence& evidence,
                                      const JudgedKernel& kernel);

// Whether a case shows it.
bool shows(const Facts& facts, const std::string& fact);
// Those that all cases show, in their order.
Facts common_facts(const std::vector<Facts>& cases);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_FACTS_H_
