// SPDX-License-Identifier: Apache-2.0
// Everything that differs between processors: the floating-point control state,
// and what a signal context contains about a fault. No other file of this floor
// depends on the processor.
#ifndef QKVET_CORE_BASE_MACHINE_H_
#define QKVET_CORE_BASE_MACHINE_H_

#include <cstdint>

namespace qkvet {

// Rounding mode, flush-to-zero and exception masks; not the sticky flags, which
// every inexact sum sets.
struct FpEnvironment {
  uint32_t vector_control = 0;  // x86: MXCSR without its flags
  uint32_t scalar_control = 0;  // x86: the x87 control word
  int rounding = 0;             // fegetround()

  friend bool operator==(const FpEnvironment&, const FpEnvironment&) = default;
};

FpEnvironment fp_environment();
void restore_fp_environment(const FpEnvironment& environment);

// From the third argument of a SA_SIGINFO handler; safe inside one. False where
// the processor does not report it.
bool fault_was_write(const void* context);
// 0 where unknown.
uint64_t stack_pointer_at_fault(const void* context);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_MACHINE_H_
