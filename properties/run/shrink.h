// SPDX-License-Identifier: Apache-2.0
// From a failing case to the smallest one that fails the same way.
#ifndef QKVET_PROPERTIES_RUN_SHRINK_H_
#define QKVET_PROPERTIES_RUN_SHRINK_H_

#include "properties/cases/scope.h"
#include "properties/checking/case_work.h"

namespace qkvet::properties {

// One case on one kernel. `with_twin` also tests the oracle; `reading` is how
// the oracle reads the case, if not unchanged.
Judgement check_case(const Law& law, const Case& value,
                     const JudgedKernel& kernel, int index, Executor& executor,
                     bool with_twin, TimeUse& time, Reading reading = nullptr);

// The law that a failing judgement is a failure of.
const Law& failed_law(const Law& planned, const Judgement& judgement);
// The law to replay it under: that law if it also fails in this case, which
// takes its calls; otherwise the planned one. A report names no other.
const Law& replayed_law(const Law& planned, const Case& value,
                        const Judgement& judgement, const JudgedKernel& kernel,
                        int index, Executor& executor, TimeUse& time);

struct Shrunk {
  Case value;
  Judgement judgement;
  int steps = 0;  // accepted
  int tries = 0;
};

// `judgement` is that of `value`, and Failed. Limited by steps, never by time,
// so that the same run shrinks to the same case everywhere. A hang costs
// seconds, so hanging cases get few tries. With `same_outcome` a NaN result
// stays NaN, and a number stays a number. Without `tries_tiny` the case is
// small already, and is shrunk by single steps.
Shrunk shrink(const Law& law, const Case& value, const Judgement& judgement,
              const JudgedKernel& kernel, int index, Executor& executor,
              TimeUse& time, const Scope& scope = {}, bool same_outcome = false,
              bool tries_tiny = true);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_SHRINK_H_
