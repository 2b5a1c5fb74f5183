// SPDX-License-Identifier: Apache-2.0
// Shared by the two halves of the machine: machine.cpp schedules threads,
// waiting.cpp has the functions that they call.
#ifndef QKVET_IMPL_CUDA_SIMT_MACHINE_STATE_H_
#define QKVET_IMPL_CUDA_SIMT_MACHINE_STATE_H_

#include "fiber.h"
#include "machine.h"

#if defined(__SANITIZE_THREAD__)
#define SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIMT_TSAN 1
#endif
#endif
#if defined(SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#define SIMT_RELEASE(p) __tsan_release(p)
#define SIMT_ACQUIRE(p) __tsan_acquire(p)
#else
#define SIMT_RELEASE(p) static_cast<void>(p)
#define SIMT_ACQUIRE(p) static_cast<void>(p)
#endif

namespace simt {

inline constexpr unsigned kOrders = 64;
inline constexpr unsigned kMostWarps = kMostThreads / kWarp;

enum class State : uint8_t { kReady, kAtBarrier, kWithLanes, kDone };

struct Thread {
  Stack stack;
  Index index;
  unsigned number = 0;
  State state = State::kDone;
  Place place = {"", 0};
  void* mine = nullptr;
  uint32_t mask = 0;
  Work work = nullptr;
  char* order = nullptr;  // of the barrier of its warp that it waits at
  LateCopies late;
};

struct Warp {
  uint32_t arrived = 0;
  uint32_t alive = 0;
  // ThreadSanitizer identifies barriers by these addresses, used one after the
  // other.
  char orders[kOrders] = {};
  unsigned next_order = 0;
};

struct Machine {
  Thread threads[kMostThreads];
  Warp warps[kMostWarps];
  Stack main;
  Thread* current = nullptr;
  unsigned count = 0;  // threads of a block
  unsigned alive = 0;
  unsigned arrived = 0;  // at the barrier of the block
  unsigned yes = 0, last_yes = 0;
  Place barrier = {"", 0};
  Index block;
  Extent grid, extent;
  char* arena = nullptr;
  char* shared = nullptr;  // in the arena, as are the next two
  size_t shared_bytes = 0;
  char* canary = nullptr;
  size_t canary_bytes = 0;
  void (*body)(void*) = nullptr;
  void* data = nullptr;
  Fault fault;
  uint64_t random = 0;
  // The order in which barriers release threads, taken in turns: a thread that
  // is late at one must not see the writes of others before the next.
  char order[2] = {};
  unsigned barriers = 0;
  char begin = 0;   // of a block: what was before
  char end = 0;     // of its threads
  char memory = 0;  // of fences
};

// Only one launch runs at a time; all of its fibers use this one.
extern Machine* g_machine;

void set_fault(Machine* m, const char* what, Place place, const Thread& thread);
// Leaves the running thread; returns with its next turn.
void yield(Machine* m, Thread* thread);

// `thread` has ended: it may be the last that other lanes waited for.
void lane_ended(Machine* m, Thread* thread);

}  // namespace simt

#endif  // QKVET_IMPL_CUDA_SIMT_MACHINE_STATE_H_
