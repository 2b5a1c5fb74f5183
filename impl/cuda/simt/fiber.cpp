// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define SIMT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define SIMT_TSAN 1
#endif
#if defined(SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Saves the preserved registers, switches the stack and restores them. All
// fibers share the state that the launch gave the floating-point unit.
extern "C" void simt_change_stack(void** save, void* to);
asm(R"(
.text
.weak simt_change_stack
.hidden simt_change_stack
.type simt_change_stack,@function
simt_change_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size simt_change_stack,.-simt_change_stack
)");
#else
#include <ucontext.h>
#endif

namespace simt {
namespace {

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

#if defined(__x86_64__)
constexpr int kSavedRegisters = 6;

SIMT_UNSEEN void prepare(Stack* stack, void (*entry)()) {
  // At its first instruction a function expects the stack 8 bytes off 16.
  void** top = reinterpret_cast<void**>(stack->memory + stack->bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int n = 0; n < kSavedRegisters; ++n) {
    *--top = nullptr;
  }
  stack->saved = top;
}

SIMT_UNSEEN void jump(Stack* from, Stack* to) {
  simt_change_stack(&from->saved, to->saved);
}

void discard(Stack*) {}
#else
ucontext_t* context_of(Stack* stack) {
  if (stack->saved == nullptr) {
    stack->saved = new ucontext_t;
  }
  return static_cast<ucontext_t*>(stack->saved);
}

SIMT_UNSEEN void prepare(Stack* stack, void (*entry)()) {
  ucontext_t* const context = context_of(stack);
  getcontext(context);
  context->uc_stack = {};
  context->uc_stack.ss_sp = stack->memory;
  context->uc_stack.ss_size = stack->bytes;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
}

SIMT_UNSEEN void jump(Stack* from, Stack* to) {
  swapcontext(context_of(from), context_of(to));
}

void discard(Stack* stack) {
  delete static_cast<ucontext_t*>(stack->saved);
  stack->saved = nullptr;
}
#endif

}  // namespace

bool make_stack(Stack* stack, size_t bytes) {
  const size_t page = page_bytes();
  void* const memory = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return false;
  }
  mprotect(memory, page, PROT_NONE);
  stack->memory = static_cast<char*>(memory) + page;
  stack->bytes = bytes;
#if defined(SIMT_TSAN)
  stack->tsan = __tsan_create_fiber(0);
#endif
  return true;
}

void free_stack(Stack* stack) {
  discard(stack);
#if defined(SIMT_TSAN)
  if (stack->tsan != nullptr) {
    __tsan_destroy_fiber(stack->tsan);
  }
#endif
  const size_t page = page_bytes();
  munmap(stack->memory - page, stack->bytes + page);
  *stack = {};
}

SIMT_UNSEEN void adopt_stack([[maybe_unused]] Stack* stack) {
#if defined(SIMT_TSAN)
  stack->tsan = __tsan_get_current_fiber();
#endif
}

SIMT_UNSEEN void abandon_frames([[maybe_unused]] Stack* stack) {
  allow_touching(stack->memory, stack->bytes);
#if defined(SIMT_TSAN)
  // Its accesses are ordered before all later ones, as after a launch.
  void* const here = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(stack->tsan, 0);
  __tsan_switch_to_fiber(here, 0);
  __tsan_destroy_fiber(stack->tsan);
  stack->tsan = __tsan_create_fiber(0);
#endif
}

SIMT_UNSEEN void begin_on(Stack* stack, void (*entry)()) {
  stack->asan = nullptr;
  prepare(stack, entry);
}

SIMT_UNSEEN void change_stack(Stack* from, Stack* to,
                              [[maybe_unused]] bool for_good) {
#if defined(SIMT_TSAN)
  __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(SIMT_ASAN)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &from->asan, to->memory,
                                 to->bytes);
#endif
  jump(from, to);
#if defined(SIMT_ASAN)
  __sanitizer_finish_switch_fiber(from->asan, nullptr, nullptr);
#endif
}

SIMT_UNSEEN void arrived_from([[maybe_unused]] Stack* from) {
#if defined(SIMT_ASAN)
  const void* memory = nullptr;
  __sanitizer_finish_switch_fiber(nullptr, &memory, &from->bytes);
  from->memory = static_cast<char*>(const_cast<void*>(memory));
#endif
}

void allow_touching([[maybe_unused]] void* memory,
                    [[maybe_unused]] size_t bytes) {
#if defined(SIMT_ASAN)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

void forbid_touching([[maybe_unused]] void* memory,
                     [[maybe_unused]] size_t bytes) {
#if defined(SIMT_ASAN)
  __asan_poison_memory_region(memory, bytes);
#endif
}

}  // namespace simt
