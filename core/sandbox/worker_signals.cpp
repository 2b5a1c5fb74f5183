// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/worker_signals.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "core/base/machine.h"

namespace qkvet {
namespace {

constexpr int kDeadlySignals[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                  SIGABRT, SIGTRAP, SIGSYS};

// Room for the largest vector state that a processor saves, and then some.
constexpr size_t kHandlerStack = size_t{256} << 10;

// A stack pointer closer to the limit than this has run out of stack. The limit
// counts from the environment's address, which is not known exactly.
constexpr uint64_t kStackEdge = uint64_t{1} << 20;

CrashRecord* g_record = nullptr;
const KernelHeap* g_kernel_heap = nullptr;
uint64_t g_stack_limit = 0;  // the lowest address the stack may grow to
uint64_t g_stack_top = 0;

// The bytes that functions touch below their stack pointer, and above it in one
// step.
constexpr uint64_t kRedZone = 4096;

// The operating system reads a path there, and returns EFAULT if it cannot.
bool is_readable(uint64_t address) {
  return access(reinterpret_cast<const char*>(address), F_OK) == 0 ||
         errno != EFAULT;
}

// A stack that the kernel has made, of a fiber: it is below the limit of the
// main one, among the tensors. While the pointer is inside of it, only an
// address just below the pointer can be its guard page.
bool is_on_another_stack(uint64_t pointer) {
  return pointer + kStackEdge < g_stack_limit && is_readable(pointer);
}

// The main stack: the pointer is at or below the limit, and the address is
// between it (with the red zone) and the top. The stacks of other threads are
// also below the limit.
bool is_stack_overflow(uint64_t pointer, uint64_t address) {
  if (syscall(SYS_gettid) != getpid() || pointer == 0 ||
      address + kRedZone < pointer)
    return false;
  if (is_on_another_stack(pointer)) return address < pointer;
  return pointer < g_stack_limit + kStackEdge && address < g_stack_top;
}

void last_words(int signal, siginfo_t* info, void* context) {
  // If several threads die at once, the first one counts. It ends the process
  // as soon as its record is complete.
  constexpr int kMostWaitMilliseconds = 1000;
  int32_t none = 0;
  if (!g_record->signal.compare_exchange_strong(none, signal)) {
    poll(nullptr, 0, kMostWaitMilliseconds);
    _exit(kSignalExit);
  }
  const bool memory = signal == SIGSEGV || signal == SIGBUS;
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  g_record->code = info->si_code;
  g_record->address = address;
  g_record->is_write = memory && fault_was_write(context) ? 1 : 0;
  g_record->stack_overflow =
      memory && is_stack_overflow(stack_pointer_at_fault(context), address) ? 1
                                                                            : 0;
  if (g_kernel_heap != nullptr) {
    HeapFault fault;
    if (signal == SIGABRT) fault = g_kernel_heap->found_write();
    if (memory) fault = g_kernel_heap->fault_at(address);
    fault.is_write |= g_record->is_write != 0;
    g_record->heap = fault;
  }
  _exit(kSignalExit);
}

}  // namespace

void install_last_words(CrashRecord* record, const KernelHeap* heap) {
  g_record = record;
  g_kernel_heap = heap;
  char here = 0;
  g_stack_top = reinterpret_cast<uint64_t>(&here);
  rlimit limit{};
  getrlimit(RLIMIT_STACK, &limit);
  g_stack_limit =
      g_stack_top > limit.rlim_cur ? g_stack_top - limit.rlim_cur : 0;
  stack_t stack{};
  stack.ss_size = kHandlerStack;
  stack.ss_sp = mmap(nullptr, kHandlerStack, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, nullptr);
  rearm_last_words();
}

void rearm_last_words() {
  struct sigaction action {};
  action.sa_sigaction = last_words;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const int signal : kDeadlySignals) sigaction(signal, &action, nullptr);
}

}  // namespace qkvet
