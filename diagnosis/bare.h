// SPDX-License-Identifier: Apache-2.0
// Wrong answers that are not informative: a tensor with one number throughout,
// which very different faults lead to.
#ifndef QKVET_DIAGNOSIS_BARE_H_
#define QKVET_DIAGNOSIS_BARE_H_

#include <optional>
#include <string>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

struct Bare {
  std::string output;  // "o", "dq"
  std::string number;  // "NaN", "0", "0.5"
  friend bool operator==(const Bare&, const Bare&) = default;
};

// Returns the first of all wrong outputs of the failing evidence if each of
// them is one constant number while the right output is not. Returns nullopt if
// some output is wrong in another way, some answer of a story is right, or the
// call damaged memory or ended its process.
std::optional<Bare> bare_answer(Evidence& evidence, const JudgedKernel& kernel);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_BARE_H_
