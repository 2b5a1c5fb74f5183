// SPDX-License-Identifier: Apache-2.0
// A call that is made thousands of times in one process: whether its output
// stays the same, and whether it leaks memory, descriptors or threads.
#ifndef QKVET_CORE_SANDBOX_REPEATED_CALLS_H_
#define QKVET_CORE_SANDBOX_REPEATED_CALLS_H_

#include <cstdint>
#include <functional>

#include "core/door/door.h"

namespace qkvet {

// Makes the group as often as its first call requires, fewer times where calls
// are slow. If the kernel must return the same bits each time, it stops at the
// first output with other bits. `make(n)` makes call n of the group.
// `live_bytes`: of the kernel's heap; null: unknown. The first reply always
// contains the results so far, because the worker may die in a call.
void repeat_calls(const KernelInfo& kernel, CallGroup group,
                  const std::function<void(size_t)>& make,
                  int64_t (*live_bytes)());

// CPU time after which no further call is made: for limits on a hang.
inline constexpr double kMostSecondsOfRepeats = 0.3;

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_REPEATED_CALLS_H_
