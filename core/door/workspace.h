// SPDX-License-Identifier: Apache-2.0
// The memory that a kernel requests with workspace(). It is between guard
// pages, its end flush with the guard after it (rounded to 64 bytes, which
// vectors need), and filled with canaries, so that reading it before writing
// gives NaN.
#ifndef QKVET_CORE_DOOR_WORKSPACE_H_
#define QKVET_CORE_DOOR_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/door/guarded.h"

namespace qkvet {

class Workspace {
 public:
  // Null if there is no memory. Valid until the next call.
  std::byte* prepare(int64_t bytes);

  // Distance of a write past the end (>= 0) or before the start (< 0) of the
  // memory from prepare().
  std::optional<int64_t> damage() const;

 private:
  GuardedMapping mapping_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_WORKSPACE_H_
