// SPDX-License-Identifier: Apache-2.0
// The case that passes next to one that fails.
#ifndef QKVET_DIAGNOSIS_WHERE_NEAREST_H_
#define QKVET_DIAGNOSIS_WHERE_NEAREST_H_

#include <string>
#include <vector>

#include "diagnosis/where/fails_where.h"

namespace qkvet::diagnosis {

// Of a passing and a failing case, both as out.hypothesis has it, those that
// differ least, and in what; the texts of cases stand as the samples do.
void find_nearest(const std::vector<std::string>& texts,
                  const std::vector<Sample>& samples, FailsWhere& out);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_NEAREST_H_
