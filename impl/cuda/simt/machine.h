// SPDX-License-Identifier: Apache-2.0
// An observable GPU: runs the threads of a launch as fibers, one at a time, in
// a chosen order, and checks what they wait for.
//
// A thread runs until it waits: at a barrier of its block, or for other lanes
// of its warp. Blocks run one after the other. It finds these bugs of a kernel:
//
//   missing barriers   in one order or another a value is read too early (wrong
//                      numbers), and ThreadSanitizer names both lines
//   divergence         threads that wait at different barriers, lanes that wait
//                      at different instructions, or for lanes that never come:
//                      a Fault with thread and line, instead of a hang
//   overruns           AddressSanitizer, and a canary after dynamic shared
//                      memory
//   fresh memory       dynamic shared memory begins as NaN in every block
//
// It does not model weak memory, timing, blocks that wait for each other, and
// the rounding of tensor cores and of fast functions.
//
// One launch at a time in a process; others wait.
#ifndef QKVET_IMPL_CUDA_SIMT_MACHINE_H_
#define QKVET_IMPL_CUDA_SIMT_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMostThreads = 1024;            // of a block
inline constexpr size_t kMostShared = size_t{227} << 10;  // bytes, as on sm_90

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  constexpr Extent(unsigned a = 1, unsigned b = 1, unsigned c = 1)
      : x(a), y(b), z(c) {}
};

// The order in which blocks, warps and lanes get their turn.
enum class Order : uint8_t { kForward, kReverse, kRandom };

struct Schedule {
  Order order = Order::kForward;
  uint64_t seed = 0;  // of kRandom
};

// The schedule of the next launches in this thread; forward until another one
// is set.
void set_schedule(Schedule schedule);
Schedule schedule();

// The source position at which a thread waits.
struct Place {
  const char* file;
  int line;
};

// An error of a kernel that no GPU allows. The first one ends the launch.
struct Fault {
  const char* what = nullptr;  // NULL: none
  Place place = {"", 0};
  Index block, thread;
};

// Returns the fault of this thread's last launch, and clears it.
Fault take_fault();
// "kernel.cuh:52: block (0,1,0), thread (33,0,0): WHAT", cut to `room` bytes.
void describe(const Fault& fault, char* text, size_t room);

// Runs body(data) once for each thread. False if there was a fault.
bool run_grid(Extent grid, Extent block, size_t shared_bytes,
              void (*body)(void*), void* data);

// ---- For the code of running threads ---------------------------------------

// Constant during a thread's life.
__attribute__((const)) Index thread_index();
__attribute__((const)) unsigned lane_index();
Index block_index();
Extent block_extent();
Extent grid_extent();

// 16-byte aligned, with the number of bytes of the launch.
void* dynamic_shared();

void fault(const char* what, Place place);

// __syncthreads(), with its vote: the number of threads with `yes`.
unsigned block_barrier(bool yes, Place place);

// A joint operation of lanes: each brings `mine`, the last one to arrive runs
// `work`, and all go on. Ended lanes do not count; their `data` is NULL.
struct Lanes {
  uint32_t mask;
  void* data[kWarp];
};
using Work = void (*)(const Lanes& lanes);
void together(uint32_t mask, void* mine, Work work, Place place);

// __syncwarp(): the only warp function that orders memory.
void warp_barrier(uint32_t mask, Place place);

// Whether `lane`, the source of a value, takes part.
bool answers(const Lanes& lanes, int lane);

// __threadfence().
void fence();

// Copies that a thread has begun and not waited for (cp.async); `group` is the
// open one. Copies that are pending when the thread ends are never made.
struct LateCopy {
  void* to;
  const void* from;
  unsigned bytes;  // of 16; the others become 0
  unsigned group;
};
struct LateCopies {
  std::vector<LateCopy> list;
  unsigned group = 0;
  unsigned begun = 0;
};
LateCopies& late_copies();

}  // namespace simt

#endif  // QKVET_IMPL_CUDA_SIMT_MACHINE_H_
