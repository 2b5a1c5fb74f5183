// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "machine_state.h"

namespace simt {

Machine* g_machine = nullptr;

SIMT_UNSEEN void set_fault(Machine* m, const char* what, Place place,
                           const Thread& thread) {
  if (m->fault.what == nullptr) {
    m->fault = {what, place, m->block, thread.index};
  }
}

SIMT_UNSEEN void yield(Machine* m, Thread* thread) {
  change_stack(&thread->stack, &m->main, false);
}

namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr unsigned char kFreshByte = 0xff;  // NaN in every type of float
constexpr size_t kSharedAlignment = 16;
constexpr unsigned char kCanaryByte = 0xa5;

thread_local Schedule t_schedule;
thread_local Fault t_fault;

SIMT_UNSEEN void thread_entry() {
  Machine* const m = g_machine;
  Thread* const thread = m->current;
  arrived_from(&m->main);
  SIMT_ACQUIRE(&m->begin);
  thread->late.list.clear();
  thread->late.group = thread->late.begun = 0;
  m->body(m->data);
  SIMT_RELEASE(&m->end);
  thread->state = State::kDone;
  --m->alive;
  lane_ended(m, thread);
  change_stack(&thread->stack, &m->main, true);
  std::abort();
}

// xorshift64*: good enough for an order, not for statistics.
SIMT_UNSEEN uint64_t next_random(Machine* m) {
  m->random ^= m->random >> 12;
  m->random ^= m->random << 25;
  m->random ^= m->random >> 27;
  return m->random * 0x2545f4914f6cdd1dull;
}

SIMT_UNSEEN void arrange(Machine* m, Order order, unsigned* list,
                         unsigned count) {
  for (unsigned n = 0; n < count; ++n) {
    list[n] = order == Order::kReverse ? count - 1 - n : n;
  }
  for (unsigned n = count; order == Order::kRandom && n > 1; --n) {
    const unsigned other = static_cast<unsigned>(next_random(m) % n);
    const unsigned kept = list[n - 1];
    list[n - 1] = list[other];
    list[other] = kept;
  }
}

SIMT_UNSEEN bool make_threads(Machine* m) {
  for (unsigned n = 0; n < m->count; ++n) {
    Thread& thread = m->threads[n];
    if (thread.stack.memory == nullptr &&
        !make_stack(&thread.stack, kStackBytes)) {
      m->fault.what = "no memory for the stacks of a block";
      return false;
    }
    thread.number = n;
    thread.index = {n % m->extent.x, n / m->extent.x % m->extent.y,
                    n / (m->extent.x * m->extent.y)};
    thread.state = State::kReady;
    m->warps[n / kWarp].alive |= 1u << n % kWarp;
    begin_on(&thread.stack, thread_entry);
  }
  return true;
}

// Runs every thread of a warp until all of them wait. False: all were waiting
// already.
SIMT_UNSEEN bool run_warp(Machine* m, unsigned warp, const unsigned* lanes) {
  bool ran = false;
  for (bool again = true; again;) {
    again = false;
    for (unsigned l = 0; l < kWarp; ++l) {
      const unsigned n = warp * kWarp + lanes[l];
      if (n >= m->count || m->threads[n].state != State::kReady) {
        continue;
      }
      m->current = &m->threads[n];
      change_stack(&m->main, &m->threads[n].stack, false);
      if (m->fault.what != nullptr) {
        return false;
      }
      again = ran = true;
    }
  }
  return ran;
}

SIMT_UNSEEN void open_barrier(Machine* m) {
  m->last_yes = m->yes;
  ++m->barriers;
  m->arrived = m->yes = 0;
  for (unsigned n = 0; n < m->count; ++n) {
    if (m->threads[n].state == State::kAtBarrier) {
      m->threads[n].state = State::kReady;
    }
  }
}

// No thread can go on, and not all are at the barrier: lanes wait for lanes.
SIMT_UNSEEN void tell_deadlock(Machine* m) {
  for (unsigned n = 0; n < m->count; ++n) {
    const Thread& thread = m->threads[n];
    if (thread.state == State::kWithLanes) {
      return set_fault(m, "waits for lanes of its warp that never come",
                       thread.place, thread);
    }
  }
}

// Fills the bytes from the end of shared memory to the guard page.
// AddressSanitizer reports writes there, and also reads.
SIMT_UNSEEN void set_canary(Machine* m) {
  allow_touching(m->canary, m->canary_bytes);
  std::memset(m->canary, kCanaryByte, m->canary_bytes);
  forbid_touching(m->canary, m->canary_bytes);
}

SIMT_UNSEEN bool canary_lives(Machine* m) {
  allow_touching(m->canary, m->canary_bytes);
  for (size_t n = 0; n < m->canary_bytes; ++n) {
    if (static_cast<unsigned char>(m->canary[n]) != kCanaryByte) {
      return false;
    }
  }
  return true;
}

SIMT_UNSEEN void run_block(Machine* m, Order order) {
  const unsigned warps = (m->count + kWarp - 1) / kWarp;
  for (Warp& warp : m->warps) {
    warp = {};
  }
  m->alive = m->count;
  m->arrived = m->yes = 0;
  // All blocks use the same shared memory, one after the other.
  SIMT_ACQUIRE(&m->end);
  std::memset(m->shared, kFreshByte, m->shared_bytes);
  set_canary(m);
  SIMT_RELEASE(&m->begin);
  if (!make_threads(m)) {
    return;
  }
  unsigned warp_list[kMostWarps], lane_list[kWarp];
  while (m->alive > 0 && m->fault.what == nullptr) {
    bool ran = false;
    arrange(m, order, warp_list, warps);
    for (unsigned w = 0; w < warps && m->fault.what == nullptr; ++w) {
      arrange(m, order, lane_list, kWarp);
      ran = run_warp(m, warp_list[w], lane_list) || ran;
    }
    if (m->alive > 0 && m->arrived == m->alive) {
      open_barrier(m);
    } else if (m->alive > 0 && !ran) {
      tell_deadlock(m);
    }
  }
  if (!canary_lives(m)) {
    set_fault(m, "a thread wrote behind dynamic shared memory", {"", 0},
              m->threads[0]);
  }
}

SIMT_UNSEEN const char* wrong_with_launch(Extent grid, Extent block,
                                          size_t shared_bytes) {
  constexpr unsigned kMostBlocks = 65535;  // in y and z
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || uint64_t{grid.x} * grid.y * grid.z == 0) {
    return "a launch without blocks or threads";
  }
  if (threads > kMostThreads || block.z > 64) {
    return "more than 1024 threads in a block, or 64 in z";
  }
  if (grid.x > 0x7fffffffu || grid.y > kMostBlocks || grid.z > kMostBlocks) {
    return "more than 2^31 - 1 blocks in x, or 65535 in y or z";
  }
  return shared_bytes > kMostShared ? "more than 227 KiB of shared memory"
                                    : nullptr;
}

SIMT_UNSEEN void run_blocks(Machine* m, Schedule how) {
  const uint64_t blocks = uint64_t{m->grid.x} * m->grid.y * m->grid.z;
  m->random = how.seed * 2 + 0x9e3779b97f4a7c15ull;
  // An odd step without a common factor with the count reaches all.
  uint64_t step = 1, first = 0;
  if (how.order == Order::kRandom) {
    first = next_random(m) % blocks;
    step = blocks % 7 != 0 ? 7 : blocks % 11 != 0 ? 11 : 1;
  }
  for (uint64_t n = 0; n < blocks && m->fault.what == nullptr; ++n) {
    const uint64_t at = how.order == Order::kReverse
                            ? blocks - 1 - n
                            : (first + n * step) % blocks;
    m->block = {static_cast<unsigned>(at % m->grid.x),
                static_cast<unsigned>(at / m->grid.x % m->grid.y),
                static_cast<unsigned>(at / m->grid.x / m->grid.y)};
    run_block(m, how.order);
  }
}

// After a fault, threads stop in the middle of their functions.
void leave_threads(Machine* m) {
  for (unsigned n = 0; n < m->count; ++n) {
    if (m->threads[n].stack.memory != nullptr) {
      abandon_frames(&m->threads[n].stack);
    }
  }
}

// Shared memory ends at a canary, followed by an inaccessible page.
bool place_shared(Machine* m, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t room = (kMostShared + page - 1) / page * page;
  if (m->arena == nullptr) {
    void* const memory = mmap(nullptr, room + 2 * page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return false;
    }
    m->arena = static_cast<char*>(memory);
    mprotect(m->arena + room + page, page, PROT_NONE);
  }
  char* const end = m->arena + room;
  m->shared = end - (bytes + kSharedAlignment - 1) / kSharedAlignment *
                        kSharedAlignment;
  m->shared_bytes = bytes;
  allow_touching(m->arena, room + page);
  forbid_touching(m->arena, static_cast<size_t>(m->shared - m->arena));
  m->canary = m->shared + bytes;
  m->canary_bytes = static_cast<size_t>(end + page - m->canary);
  return true;
}

// Stacks and all are kept for later launches: making them again costs more than
// a small launch.
Machine& only_machine() {
  static Machine* const machine = new Machine;
  return *machine;
}

}  // namespace

void set_schedule(Schedule schedule) { t_schedule = schedule; }
Schedule schedule() { return t_schedule; }

Fault take_fault() {
  const Fault fault = t_fault;
  t_fault = {};
  return fault;
}

void describe(const Fault& fault, char* text, size_t room) {
  const char* file = std::strrchr(fault.place.file, '/');
  file = file == nullptr ? fault.place.file : file + 1;
  const Index& b = fault.block;
  const Index& t = fault.thread;
  if (fault.place.line == 0) {
    std::snprintf(text, room, "block (%u,%u,%u): %s", b.x, b.y, b.z,
                  fault.what);
  } else {
    std::snprintf(text, room, "%s:%d: block (%u,%u,%u), thread (%u,%u,%u): %s",
                  file, fault.place.line, b.x, b.y, b.z, t.x, t.y, t.z,
                  fault.what);
  }
}

bool run_grid(Extent grid, Extent block, size_t shared_bytes,
              void (*body)(void*), void* data) {
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  t_fault = {};
  t_fault.what = wrong_with_launch(grid, block, shared_bytes);
  if (t_fault.what != nullptr) {
    return false;
  }
  Machine& m = only_machine();
  m.grid = grid;
  m.extent = block;
  m.count = block.x * block.y * block.z;
  m.body = body;
  m.data = data;
  m.fault = {};
  if (!place_shared(&m, shared_bytes)) {
    t_fault.what = "no memory for shared memory";
    return false;
  }
  adopt_stack(&m.main);
  g_machine = &m;
  run_blocks(&m, t_schedule);
  SIMT_ACQUIRE(&m.end);
  g_machine = nullptr;
  t_fault = m.fault;
  if (t_fault.what != nullptr) {
    leave_threads(&m);
  }
  return t_fault.what == nullptr;
}

}  // namespace simt
