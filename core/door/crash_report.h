// SPDX-License-Identifier: Apache-2.0
// Why a worker ended, in words and as data.
#ifndef QKVET_CORE_DOOR_CRASH_REPORT_H_
#define QKVET_CORE_DOOR_CRASH_REPORT_H_

#include <string>

#include "core/call/call.h"
#include "core/door/worker_protocol.h"

namespace qkvet {

// "SIGSEGV at address 0x10", "SIGFPE (division by zero)", "stack overflow",
// "exited with status 0", "killed by signal 9".
std::string death_text(const CrashRecord& crash, int wait_status);

// "read past the end of k, offset 0"; the workspace if no tensor is named.
std::string fault_text(const MemoryFault& fault);

// Sets status, text and fault of a call in which the worker died, or ended
// itself because the call cost it its device. `plan` is the program's own copy;
// of the slot only numbers and the reason are read.
void report_death(const CallPlan& plan, const Slot& slot,
                  const CrashRecord& crash, int wait_status,
                  CallOutcome* outcome);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_CRASH_REPORT_H_
