// SPDX-License-Identifier: Apache-2.0
// Makes a failing case a failure that can be reported: repeated, shrunk,
// examined.
#ifndef QKVET_PROPERTIES_RUN_FAILURE_H_
#define QKVET_PROPERTIES_RUN_FAILURE_H_

#include "properties/run/tally.h"

namespace qkvet::properties {

// `candidate` failed on the kernel, which `executor` holds. A failure that does
// not repeat every time is not shrunk. A pure function of the candidate, if the
// kernel is one. With `same_outcome` NaN stays NaN. `like`: the smallest cases
// in which the kernel fails other laws. They shorten the way down if it fails
// this law there as well.
Failure shrunk_failure(const Candidate& candidate,
                       const KernelUnderTest& kernel, Executor& executor,
                       TimeUse& time, const Scope& scope,
                       bool same_outcome = false,
                       const std::vector<Case>& like = {});

// The failures of one law: the first, and those that must have other causes.
std::vector<Failure> shrunk_failures(const std::vector<Candidate>& failing,
                                     const KernelUnderTest& kernel,
                                     Executor& executor, TimeUse& time,
                                     const Scope& scope,
                                     const std::vector<Case>& like = {});

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_FAILURE_H_
