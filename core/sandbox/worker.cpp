// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/worker.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/door/door.h"
#include "core/door/worker_protocol.h"
#include "core/sandbox/orphans.h"
#include "core/sandbox/repeated_calls.h"
#include "core/sandbox/wire.h"
#include "core/sandbox/worker_signals.h"

namespace qkvet {
namespace {

// Fills fresh memory unless a plan has another byte: a NaN in all storage
// types, and -1.
constexpr uint8_t kFreshByte = 0xff;
// Bytes of the stack below the call: room for frames of a kernel.
constexpr size_t kFilledStack = size_t{64} << 10;

// No core files, a stack that ends somewhere, and the first to go when the
// machine runs out of memory.
void limit_resources() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  constexpr rlim_t kStack = rlim_t{8} << 20;
  rlimit stack{};
  getrlimit(RLIMIT_STACK, &stack);
  if (stack.rlim_cur == RLIM_INFINITY || stack.rlim_cur < kStack) {
    stack.rlim_cur = std::min(kStack, stack.rlim_max);
    setrlimit(RLIMIT_STACK, &stack);
  }
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, "1000", 4);
  close(fd);
}

// The system's signal when the last writer of the pipe closes it. Not
// PR_SET_PDEATHSIG: that fires when the thread that started us ends. Processes
// that a kernel forked end with it.
void die_with_program() {
  const bool leads = getpgrp() == getpid();
  end_with_writer(kLifelineFd, leads ? -getpid() : getpid());
}

void write_info(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(kInfoFd, text.data() + at, text.size() - at);
    if (n <= 0) _exit(kProtocolExit);
    at += static_cast<size_t>(n);
  }
}

void signal_done() {
  const uint64_t one = 1;
  if (write(kDoneFd, &one, sizeof one) != sizeof one) _exit(kProtocolExit);
}

void await_go() {
  uint64_t count = 0;
  while (read(kGoFd, &count, sizeof count) != sizeof count)
    if (errno != EINTR) _exit(kProtocolExit);
}

void set_state(Control* control, LoadState state) {
  control->load_state.store(static_cast<uint32_t>(state));
}

// If there is no room for a call's tensors, the kernel is not to blame, unless
// it took the room itself. Where addresses are limited, or for parts that are
// far apart, the call counts as unsupported.
CallStatus without_memory(const CallPlan& plan) {
  rlimit addresses{};
  getrlimit(RLIMIT_AS, &addresses);
  return plan.has_far() || addresses.rlim_cur != RLIM_INFINITY
             ? CallStatus::kUnsupported
             : CallStatus::kOutOfMemory;
}

bool find_tensors(WindowTable& windows, int number, Slot& slot,
                  TensorAddresses* addresses) {
  std::string why;
  if (!windows.locate(number, slot.plan, addresses, &why)) {
    slot.reply.without_memory = 1;
    slot.reply.answer(without_memory(slot.plan), why);
    return false;
  }
  for (int t = 0; t < kTensorCount; ++t)
    slot.address[t] = reinterpret_cast<uint64_t>((*addresses)[t]);
  return true;
}

// Makes malloc() fill its blocks with this byte from now on, where the kernel's
// heap is not guarded; 0: leaves them unspecified. Has no effect where the C
// library has no such switch, or a sanitizer has its own malloc().
void fill_fresh_memory([[maybe_unused]] uint8_t byte) {
#ifdef M_PERTURB
  static uint8_t last = 0;
  if (byte == last) return;
  last = byte;
  constexpr int kAllBits = 0xff;  // which glibc turns over
  mallopt(M_PERTURB, byte == 0 ? 0 : byte ^ kAllBits);
#endif
}

// Gives the memory of the kernel's future frames the same content in every
// call, instead of remains of the previous call.
[[gnu::noinline]] void fill_stack(uint8_t byte) {
  std::array<uint8_t, kFilledStack> room;
  std::memset(room.data(), byte, room.size());
  asm volatile("" : : "r"(room.data()) : "memory");  // it is not left out
}

// Whether there are child processes, which only a kernel starts here.
bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// After the kernel has returned. A process that it forked and that also returns
// goes no further, and the worker ends for it: otherwise both would serve. That
// process may still be on its way: the first time that there are children they
// are waited for.
void end_if_forked(Control* control) {
  static const pid_t worker = getpid();
  static bool waited = false;
  std::atomic<int32_t>& forked = control->crash.forked;
  if (getpid() != worker) {
    forked = 1;
    _exit(kForkedExit);
  }
  constexpr int kMostMilliseconds = 100;
  if (!waited && has_children()) {
    waited = true;
    for (int n = 0; n < kMostMilliseconds && forked == 0; ++n)
      poll(nullptr, 0, 1);
  }
  if (forked == 0) return;
  std::fflush(nullptr);
  _exit(kForkedExit);
}

struct Worker {
  Door& door;
  WindowTable& windows;
  Control* control;
  const KernelHeap* heap;  // or null

  Slot& slot(int number) const {
    return control->slots[static_cast<size_t>(number)];
  }
  // On a device what is allocated here is the driver's, and much.
  const KernelHeap* heap_of_kernel() const {
    const auto kernel = static_cast<size_t>(control->kernel);
    return kernel < door.kernels().size() &&
                   door.kernels()[kernel].device() == QKVET_DEVICE_CPU
               ? heap
               : nullptr;
  }
};

// Makes one call, or several at once, with memory as the plan requires.
template <class Call>
void call_with_fresh_memory(const Worker& worker, const CallPlan& plan,
                            Call call) {
  const uint8_t byte = plan.fresh_memory == 0 ? kFreshByte : plan.fresh_memory;
  fill_fresh_memory(plan.fresh_memory);
  fill_stack(byte);
  const KernelHeap* const heap = worker.heap_of_kernel();
  if (heap != nullptr) heap->begin_call(byte);
  call();
  if (heap != nullptr) heap->end_call();
}

void run_slot(const Worker& worker, int number) {
  Slot& slot = worker.slot(number);
  TensorAddresses addresses{};
  worker.windows.forget_far();
  if (!find_tensors(worker.windows, number, slot, &addresses)) return;
  worker.control->current.store(number, std::memory_order_release);
  call_with_fresh_memory(worker, slot.plan, [&] {
    worker.door.call(worker.control->kernel, slot.plan, addresses, &slot.reply);
    end_if_forked(worker.control);
  });
  // The next call gets a fresh process, and with it a fresh device.
  if (slot.reply.device_lost == 0) return;
  std::fflush(nullptr);
  _exit(kDeviceExit);
}

// Slots [first, end): the first one gets the blame for what ends the process.
void run_at_once(const Worker& worker, int first, int end) {
  std::array<TensorAddresses, kSlotCount> addresses{};
  std::vector<CallAtOnce> calls;
  worker.windows.forget_far();
  for (int i = first; i < end; ++i) {
    Slot& slot = worker.slot(i);
    TensorAddresses* const found = &addresses[static_cast<size_t>(i)];
    if (find_tensors(worker.windows, i, slot, found))
      calls.push_back({&slot.plan, found, &slot.reply});
  }
  worker.control->current.store(first, std::memory_order_release);
  call_with_fresh_memory(worker, worker.slot(first).plan, [&] {
    worker.door.call_at_once(worker.control->kernel, calls);
  });
}

// Slots [first, end), again and again. A call that ends the process is to
// blame itself.
void run_repeatedly(const Worker& worker, int first, int end) {
  std::array<TensorAddresses, kSlotCount> addresses{};
  std::vector<CallAtOnce> calls;
  worker.windows.forget_far();
  for (int i = first; i < end; ++i) {
    Slot& slot = worker.slot(i);
    TensorAddresses* const found = &addresses[static_cast<size_t>(i)];
    if (!find_tensors(worker.windows, i, slot, found)) return;
    calls.push_back({&slot.plan, found, &slot.reply});
  }
  const int32_t kernel = worker.control->kernel;
  const auto make = [&](size_t n) {
    const int number = first + static_cast<int>(n);
    worker.control->current.store(number, std::memory_order_release);
    call_with_fresh_memory(worker, *calls[n].plan, [&] {
      worker.door.call(kernel, *calls[n].plan, *calls[n].addresses,
                       calls[n].reply);
    });
  };
  const KernelHeap* const heap = worker.heap_of_kernel();
  repeat_calls(worker.door.kernels()[static_cast<size_t>(kernel)], calls, make,
               heap == nullptr ? nullptr : heap->live_bytes);
}

// Past the last of the slots that are made together with this one, at once or
// again and again.
int end_of_group(const Control& control, int first, int count) {
  const auto plan = [&control](int number) -> const CallPlan& {
    return control.slots[static_cast<size_t>(number)].plan;
  };
  int end = first;
  while (end < count &&
         (plan(first).repeats > 0 ? plan(end).repeats > 0 : plan(end).at_once))
    ++end;
  return end;
}

void serve(Door& door, Control* control, const KernelHeap* heap) {
  // Never destroyed: the process ends after the last call, and the system frees
  // hundreds of windows at once, cheaper than one by one.
  static WindowTable& windows =
      *new WindowTable(kTensorsFd, WindowTable::Side::kKernel);
  const Worker worker{door, windows, control, heap};
  for (;;) {
    await_go();
    const int count = control->count;
    if (count == 0) return;
    rearm_last_words();
    for (int i = 0; i < count;) {
      const int end = end_of_group(*control, i, count);
      if (control->slots[static_cast<size_t>(i)].plan.repeats > 0)
        run_repeatedly(worker, i, end);
      else if (end - i > 1)
        run_at_once(worker, i, end);
      else
        run_slot(worker, i);
      i = std::max(end, i + 1);
    }
    control->current.store(count, std::memory_order_release);
    signal_done();
  }
}

}  // namespace

void end_with_writer(int pipe, pid_t whom) {
  fcntl(pipe, F_SETOWN, whom);
  fcntl(pipe, F_SETSIG, SIGKILL);
  fcntl(pipe, F_SETFL, O_ASYNC | O_NONBLOCK);
  char byte = 0;  // it may have ended before the lines above
  if (read(pipe, &byte, 1) == 0) _exit(0);
}

bool has_worker_descriptors() {
  for (int fd = kControlFd; fd < kFirstFreeFd; ++fd)
    if (fcntl(fd, F_GETFD) < 0) return false;
  return true;
}

void begin_worker() {
  // Descriptors of the program that were not meant for us.
  syscall(SYS_close_range, kFirstFreeFd, ~0U, 0);
  adopt_orphans();
  limit_resources();
  die_with_program();
}

int serve_library(const LibrarySpec& library, const KernelHeap* heap) {
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE,
                      MAP_SHARED, kControlFd, 0);
  if (memory == MAP_FAILED) return kProtocolExit;
  auto* control = static_cast<Control*>(memory);
  if (control->layout != kControlLayout) {
    set_state(control, LoadState::kMismatch);
    return kProtocolExit;
  }
  // Into a pipe stdio would keep a crashed kernel's last lines to itself.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  install_last_words(&control->crash, heap);
  end_if_forked(control);
  std::string error;
  std::unique_ptr<Door> door = Door::open(library, &error);
  end_if_forked(control);
  write_info(door ? pack_kernels(door->kernels()) : error);
  set_state(control, door ? LoadState::kLoaded : LoadState::kRefused);
  signal_done();
  if (door) serve(*door, control, heap);
  door.reset();
  // Without the destructors of static objects: threads of a kernel may still
  // use them, and the destructor of an unjoined std::thread would call
  // terminate().
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace qkvet
