// SPDX-License-Identifier: Apache-2.0
// Finds a passing case next to a failing one.
#ifndef QKVET_DIAGNOSIS_WHERE_NEAREST_H_
#define QKVET_DIAGNOSIS_WHERE_NEAREST_H_

#include <string>
#include <vector>

#include "diagnosis/where/fails_where.h"

namespace qkvet::diagnosis {

// Finds the passing and the failing case, both as out.hypothesis predicts, that
// differ least, and their difference. `texts` has the order of `samples`.
void find_nearest(const std::vector<std::string>& texts,
                  const std::vector<Sample>& samples, FailsWhere& out);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_NEAREST_H_
