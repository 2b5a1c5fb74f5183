// SPDX-License-Identifier: Apache-2.0
// Numbers of keys and rows at which a kernel requests another workspace. For
// example, one that splits its keys from some number on needs room for the
// parts.
#ifndef QKVET_PROPERTIES_CHECKING_WORKSPACE_HINTS_H_
#define QKVET_PROPERTIES_CHECKING_WORKSPACE_HINTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/base/floors.h"
#include "core/door/executor.h"
#include "properties/cases/scope.h"

namespace qkvet::properties {

// Bytes for this extent; nullopt if the kernel does not answer.
using BytesOf = std::function<std::optional<int64_t>(int64_t extent)>;

// An extent beyond which bytes stop growing as before.
struct Bend {
  int64_t at = 0;
  int64_t bytes = 0, beyond = 0;  // at it, and at the next
};
// Between 1 and `most`, noticed at powers of two and located exactly. Bytes may
// grow in steps, as tiles do. Empty if they bend everywhere: they then follow
// the extent, and are uninformative.
std::vector<Bend> bends_of(const BytesOf& bytes_of, int64_t most);

// Makes calls of one head: about fifty for a kernel that has a workspace, none
// for another. Empty if the kernel dies in one of them.
std::vector<Hint> workspace_hints(Executor& executor, int kernel,
                                  const KernelInfo& info);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_WORKSPACE_HINTS_H_
