// SPDX-License-Identifier: Apache-2.0
// Cases for which a sentence predicts a verdict, drawn by the plan's generator:
// about half of them predicted to fail, and many of the others only just not.
#ifndef QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_
#define QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_

#include <functional>
#include <vector>

#include "diagnosis/where/hypothesis.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// `failing` are cases that fail: where the plan hardly draws one that does, its
// extents are given to these. `is_over`: asked now and then; once it is, those
// that were drawn are all.
std::vector<Case> fresh_cases(
    const Hypothesis& hypothesis, const Setting& setting,
    const std::vector<Case>& failing, uint64_t seed, int count,
    const std::function<bool()>& is_over = [] { return false; });

// Cases in which all atoms of the sentence hold but one, which may be none.
std::vector<Case> cases_lacking(const Hypothesis& hypothesis, size_t atom,
                                const Setting& setting,
                                const std::vector<Case>& failing, uint64_t seed,
                                int count,
                                const std::function<bool()>& is_over);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_
