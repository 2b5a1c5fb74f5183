// SPDX-License-Identifier: Apache-2.0
// A call of another shape and with other data, made for what it may leave
// behind: more queries and keys than the case has, or as few as the kernel
// takes.
#ifndef QKVET_PROPERTIES_CALLS_OTHER_SHAPE_H_
#define QKVET_PROPERTIES_CALLS_OTHER_SHAPE_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// What each of these calls is.
inline constexpr const char* kOtherShapes[] = {
    "more queries and keys", "few queries and keys", "still more of both"};

// A larger call, a small one and one that is larger still: what the larger ones
// leave is not the same, so that the case differs behind them whatever there
// was before. None of a case with data from a file, which has no further rows.
// A kernel may refuse them.
std::vector<PlannedCall> calls_of_other_shapes(const Case& value,
                                               const KernelInfo& kernel,
                                               Operation operation);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_OTHER_SHAPE_H_
