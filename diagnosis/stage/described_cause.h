// SPDX-License-Identifier: Apache-2.0
// A description that explains all wrong numbers is the cause if no known fault
// is. It is never a sure cause, because it describes the result and not the
// reason.
#ifndef QKVET_DIAGNOSIS_STAGE_DESCRIBED_CAUSE_H_
#define QKVET_DIAGNOSIS_STAGE_DESCRIBED_CAUSE_H_

#include <optional>
#include <string>

#include "diagnosis/instead/instead.h"

namespace qkvet::diagnosis {

struct DescribedCause {
  std::string cause;     // "o is the result without the causal rule"
  std::string evidence;  // "all of 96 wrong elements in 8 failing cases"
  std::string fix;       // "" if the description does not determine it
};

// Nullopt if a wrong output has no description, or one that holds for most
// elements only, or one that many mistakes lead to.
std::optional<DescribedCause> described_cause(const Instead& instead);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_STAGE_DESCRIBED_CAUSE_H_
