// SPDX-License-Identifier: Apache-2.0
// A function with a stack of its own, which can stop in the middle and go on:
// one thread of a GPU. All fibers of a launch run on one thread of the system.
//
// AddressSanitizer is notified of every change of stacks. To ThreadSanitizer a
// fiber is a thread, and a change from one to another orders nothing: only the
// machine (machine.h) orders memory, as on a GPU.
//
// The only file with code for one processor: x86-64 changes stacks in a dozen
// instructions, all others by swapcontext(), some ten times slower.
#ifndef QKVET_IMPL_CUDA_SIMT_FIBER_H_
#define QKVET_IMPL_CUDA_SIMT_FIBER_H_

#include <cstddef>

namespace simt {

// Hides the code between the fibers from ThreadSanitizer. With clang
// no_sanitize() still counts calls, and some here never return.
#if defined(__has_attribute) && defined(__clang__)
#if __has_attribute(disable_sanitizer_instrumentation)
#define SIMT_UNSEEN __attribute__((disable_sanitizer_instrumentation, noinline))
#endif
#endif
#if !defined(SIMT_UNSEEN)
#define SIMT_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#endif

// The source or target of a change of stacks.
struct Stack {
  void* saved = nullptr;  // the stack pointer, or a context
  char* memory = nullptr;
  size_t bytes = 0;
  void* asan = nullptr;  // AddressSanitizer's own of this stack
  void* tsan = nullptr;  // ThreadSanitizer's fiber
};

// Memory with an inaccessible page below it. False if there is none.
bool make_stack(Stack* stack, size_t bytes);
void free_stack(Stack* stack);

// The caller's stack, which exists already.
void adopt_stack(Stack* stack);

// A stack that will not go on where it stopped: the sanitizers forget the
// functions on it.
void abandon_frames(Stack* stack);

// The next change to `stack` calls entry(), which must not return.
void begin_on(Stack* stack, void (*entry)());

// Leaves `from` and goes on with `to`; returns when `from` is resumed.
// `for_good`: it never is.
void change_stack(Stack* from, Stack* to, bool for_good);

// The first call of an entry, which came from `from`.
void arrived_from(Stack* from);

// The state of memory in AddressSanitizer.
void allow_touching(void* memory, size_t bytes);
void forbid_touching(void* memory, size_t bytes);

}  // namespace simt

#endif  // QKVET_IMPL_CUDA_SIMT_FIBER_H_
