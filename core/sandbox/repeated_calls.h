// SPDX-License-Identifier: Apache-2.0
// A call that is made thousands of times in one process: whether its answer
// stays the same, and whether memory, descriptors or threads are left behind.
#ifndef QKVET_CORE_SANDBOX_REPEATED_CALLS_H_
#define QKVET_CORE_SANDBOX_REPEATED_CALLS_H_

#include <cstdint>
#include <functional>

#include "core/door/door.h"

namespace qkvet {

// Makes the group as often as its first call says, fewer times where calls are
// slow. Of a kernel with the same bits each time it stops at the first answer
// with others. `make(n)` makes call n of the group. `live_bytes`: of the
// kernel's heap; null: unknown. The first reply contains what came of it, also
// for a program whose worker dies in a call.
void repeat_calls(const KernelInfo& kernel, CallGroup group,
                  const std::function<void(size_t)>& make,
                  int64_t (*live_bytes)());

// CPU time after which no further call is made: for limits on a hang.
inline constexpr double kMostSecondsOfRepeats = 0.3;

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_REPEATED_CALLS_H_
