// SPDX-License-Identifier: Apache-2.0
// Cases for which a sentence predicts a verdict, drawn by the plan's generator:
// about half of them predicted to fail, and many of the others only just not.
#ifndef QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_
#define QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_

#include <vector>

#include "diagnosis/where/hypothesis.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// A pure function. `failing` are cases that fail: where the plan hardly draws
// one that does, its extents are given to these.
std::vector<Case> fresh_cases(const Hypothesis& hypothesis,
                              const Setting& setting,
                              const std::vector<Case>& failing, uint64_t seed,
                              int count);

// Cases in which all atoms of the sentence hold but one, which may be none.
std::vector<Case> cases_lacking(const Hypothesis& hypothesis, size_t atom,
                                const Setting& setting,
                                const std::vector<Case>& failing, uint64_t seed,
                                int count);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_
