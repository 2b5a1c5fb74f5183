// SPDX-License-Identifier: Apache-2.0
// Facts about a failing case besides wrong numbers: how a call without an
// answer ends, and what a cache reads back instead of a token.
#ifndef QKVET_DIAGNOSIS_INSTEAD_FACTS_H_
#define QKVET_DIAGNOSIS_INSTEAD_FACTS_H_

#include <optional>
#include <string>
#include <vector>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

// Facts of one case, the most specific first: "append ends its process".
using Facts = std::vector<std::string>;

// Facts of the first call that ends wrongly; empty: all calls end as they
// should.
Facts facts_of_calls(const Evidence& evidence, const JudgedKernel& kernel);

// Facts of the first read_back() that returns wrong tokens, in a case with
// distinct tokens: "the wrong keys that are read back are those of the token in
// front". Nullopt: all tokens are right, or nothing is known.
std::optional<Facts> facts_of_storage(const Evidence& evidence,
                                      const JudgedKernel& kernel);

// Whether the facts of a case include `fact`.
bool shows(const Facts& facts, const std::string& fact);
// Facts that all cases share, in their order.
Facts common_facts(const std::vector<Facts>& cases);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_FACTS_H_
