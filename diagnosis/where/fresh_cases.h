// SPDX-License-Identifier: Apache-2.0
// Cases with a verdict that a sentence predicts, drawn by the plan's generator:
// about half of them are predicted to fail, and many of the others narrowly to
// pass.
#ifndef QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_
#define QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_

#include <functional>
#include <vector>

#include "diagnosis/where/hypothesis.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// `failing` are cases that fail: if the plan rarely draws one, they get planned
// extents. `is_over` is called now and then; once it is true, no more are
// drawn.
std::vector<Case> fresh_cases(
    const Hypothesis& hypothesis, const Setting& setting,
    const std::vector<Case>& failing, uint64_t seed, int count,
    const std::function<bool()>& is_over = [] { return false; });

// Cases in which all atoms of the sentence hold except one; may be empty.
std::vector<Case> cases_lacking(const Hypothesis& hypothesis, size_t atom,
                                const Setting& setting,
                                const std::vector<Case>& failing, uint64_t seed,
                                int count,
                                const std::function<bool()>& is_over);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_FRESH_CASES_H_
