// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/worker.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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
#include "core/sandbox/wire.h"
#include "core/sandbox/worker_signals.h"

namespace qkvet {
namespace {

// No core files, a stack that ends somewhere, and the first to go when the
// machine runs out of memory.
void limit_resources() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  constexpr rlim_t kStack = rlim_t{8} << 20;
  rlimit stack{};
  getrlimit(RLIMIT_STACK, &stack);
  if (stack.rlim_cur == RLIM_INFINITY) {
    stack.rlim_cur = std::min(kStack, stack.rlim_max);
    setrlimit(RLIMIT_STACK, &stack);
  }
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = write(fd, "1000", 4);
  close(fd);
}

// The kernel's signal when the last writer of the pipe closes it. Not
// PR_SET_PDEATHSIG: that fires when the thread that started us ends.
void die_with_program() {
  fcntl(kLifelineFd, F_SETOWN, getpid());
  fcntl(kLifelineFd, F_SETSIG, SIGKILL);
  fcntl(kLifelineFd, F_SETFL, O_ASYNC | O_NONBLOCK);
  char byte = 0;  // it may have ended before the lines above
  if (read(kLifelineFd, &byte, 1) == 0) _exit(0);
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

bool find_tensors(WindowTable& windows, int number, Slot& slot,
                  TensorAddresses* addresses) {
  std::string why;
  if (!windows.locate(number, slot.plan, addresses, &why)) {
    slot.reply.without_memory = 1;
    slot.reply.answer(without_memory(slot.plan.has_far()), why);
    return false;
  }
  for (int t = 0; t < kTensorCount; ++t)
    slot.address[t] = reinterpret_cast<uint64_t>((*addresses)[t]);
  return true;
}

// What malloc() gives is full of this byte from now on; 0: as it comes. Nothing
// where the C library has no such switch, or a sanitizer has its own malloc().
void fill_fresh_memory([[maybe_unused]] uint8_t byte) {
#ifdef M_PERTURB
  static uint8_t last = 0;
  if (byte == last) return;
  last = byte;
  constexpr int kAllBits = 0xff;  // which glibc turns over
  mallopt(M_PERTURB, byte == 0 ? 0 : byte ^ kAllBits);
#endif
}

void run_slot(Door& door, WindowTable& windows, Control* control, int number) {
  Slot& slot = control->slots[static_cast<size_t>(number)];
  TensorAddresses addresses{};
  windows.forget_far();
  if (!find_tensors(windows, number, slot, &addresses)) return;
  control->current.store(number, std::memory_order_release);
  fill_fresh_memory(slot.plan.fresh_memory);
  door.call(control->kernel, slot.plan, addresses, &slot.reply);
  // The next call gets a fresh process, and with it a fresh device.
  if (slot.reply.device_lost == 0) return;
  std::fflush(nullptr);
  _exit(kDeviceExit);
}

// Slots [first, end): the first one gets the blame for what ends the process.
void run_at_once(Door& door, WindowTable& windows, Control* control, int first,
                 int end) {
  std::array<TensorAddresses, kSlotCount> addresses{};
  std::vector<CallAtOnce> calls;
  windows.forget_far();
  for (int i = first; i < end; ++i) {
    Slot& slot = control->slots[static_cast<size_t>(i)];
    TensorAddresses* const found = &addresses[static_cast<size_t>(i)];
    if (find_tensors(windows, i, slot, found))
      calls.push_back({&slot.plan, found, &slot.reply});
  }
  control->current.store(first, std::memory_order_release);
  // One for all of them: what a call in front of them asked for is over.
  fill_fresh_memory(
      control->slots[static_cast<size_t>(first)].plan.fresh_memory);
  door.call_at_once(control->kernel, calls);
}

// Behind the last of the slots that are made at once with this one.
int end_of_group(const Control& control, int first, int count) {
  int end = first;
  while (end < count && control.slots[static_cast<size_t>(end)].plan.at_once)
    ++end;
  return end;
}

void serve(Door& door, Control* control) {
  // Never taken down: the process ends behind the last call, and the system
  // takes hundreds of windows back at once, cheaper than one by one.
  static WindowTable& windows =
      *new WindowTable(kTensorsFd, WindowTable::Side::kKernel);
  for (;;) {
    await_go();
    const int count = control->count;
    if (count == 0) return;
    rearm_last_words();
    for (int i = 0; i < count;) {
      const int end = end_of_group(*control, i, count);
      if (end - i > 1)
        run_at_once(door, windows, control, i, end);
      else
        run_slot(door, windows, control, i);
      i = std::max(end, i + 1);
    }
    control->current.store(count, std::memory_order_release);
    signal_done();
  }
}

}  // namespace

bool has_worker_descriptors() {
  for (int fd = kControlFd; fd < kFirstFreeFd; ++fd)
    if (fcntl(fd, F_GETFD) < 0) return false;
  return true;
}

void begin_worker() {
  // Descriptors of the program that were not meant for us.
  syscall(SYS_close_range, kFirstFreeFd, ~0U, 0);
  limit_resources();
  die_with_program();
}

int serve_library(const LibrarySpec& library) {
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
  install_last_words(&control->crash);
  std::string error;
  std::unique_ptr<Door> door = Door::open(library, &error);
  write_info(door ? pack_kernels(door->kernels()) : error);
  set_state(control, door ? LoadState::kLoaded : LoadState::kRefused);
  signal_done();
  if (door) serve(*door, control);
  door.reset();
  // Without the destructors of static objects: threads of a kernel may still
  // use them, and a std::thread that nobody joined would end in terminate().
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace qkvet
