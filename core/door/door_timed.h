// SPDX-License-Identifier: Apache-2.0
// How every function of a kernel is called: in its phase, with a clock, and
// with the floating-point environment put back.
#ifndef QKVET_CORE_DOOR_DOOR_TIMED_H_
#define QKVET_CORE_DOOR_DOOR_TIMED_H_

#include <chrono>

#include "core/base/machine.h"
#include "core/door/door.h"
#include "core/door/guarded.h"

namespace qkvet {

template <class Function>
qkvet_status Door::timed(Phase phase, CallReply* reply, Function function) {
  const FpEnvironment before = fp_environment();
  reply->enter(phase);
  const auto start = std::chrono::steady_clock::now();
  const qkvet_status status = function();
  const auto end = std::chrono::steady_clock::now();
  reply->enter(Phase::kOutside);
  reply->dirty_environment = fp_environment() == before ? 0 : 1;
  restore_fp_environment(before);
  reply->seconds = std::chrono::duration<double>(end - start).count();
  return status;
}

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_DOOR_TIMED_H_
