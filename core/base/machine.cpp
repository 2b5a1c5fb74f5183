// SPDX-License-Identifier: Apache-2.0
#include "core/base/machine.h"

#include <ucontext.h>

#include <cfenv>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace qkvet {

#if defined(__x86_64__)
namespace {

constexpr uint32_t kMxcsrFlags = 0x3f;  // the sticky exception flags

uint16_t x87_control() {
  uint16_t word = 0;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return word;
}

}  // namespace

FpEnvironment fp_environment() {
  return {_mm_getcsr() & ~kMxcsrFlags, x87_control(), std::fegetround()};
}

void restore_fp_environment(const FpEnvironment& environment) {
  std::fesetround(environment.rounding);
  _mm_setcsr(environment.vector_control | (_mm_getcsr() & kMxcsrFlags));
  const auto word = static_cast<uint16_t>(environment.scalar_control);
  __asm__ volatile("fldcw %0" : : "m"(word));
}

bool fault_was_write(const void* context) {
  constexpr greg_t kWriteBit = 2;  // of the page fault's error code
  const auto* at = static_cast<const ucontext_t*>(context);
  return (at->uc_mcontext.gregs[REG_ERR] & kWriteBit) != 0;
}

uint64_t stack_pointer_at_fault(const void* context) {
  const auto* at = static_cast<const ucontext_t*>(context);
  return static_cast<uint64_t>(at->uc_mcontext.gregs[REG_RSP]);
}

#else

FpEnvironment fp_environment() { return {0, 0, std::fegetround()}; }

void restore_fp_environment(const FpEnvironment& environment) {
  std::fesetround(environment.rounding);
}

bool fault_was_write(const void*) { return false; }

#if defined(__aarch64__)
uint64_t stack_pointer_at_fault(const void* context) {
  return static_cast<const ucontext_t*>(context)->uc_mcontext.sp;
}
#else
uint64_t stack_pointer_at_fault(const void*) { return 0; }
#endif

#endif

}  // namespace qkvet
