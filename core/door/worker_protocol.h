// SPDX-License-Identifier: Apache-2.0
// Everything that the program and its worker process share: inherited
// descriptors and one block of memory. Kernels in the worker can overwrite that
// block, so the program checks everything that it reads from it.
//
// One round trip: the program fills `count` slots and signals kGoFd; the worker
// runs them in order and signals kDoneFd. If it dies, `current` is the culprit.
#ifndef QKVET_CORE_DOOR_WORKER_PROTOCOL_H_
#define QKVET_CORE_DOOR_WORKER_PROTOCOL_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "core/door/arena.h"
#include "core/door/call_plan.h"
#include "core/door/door.h"

namespace qkvet {

// First argument of a worker that was started by the program; then the
// library's path and config.
inline constexpr char kWorkerMark[] = "--inherited";
// Instead of it, for a process that forks workers (fork_server.h): its end of a
// socket is kForksFd.
inline constexpr char kForksMark[] = "--forks";

inline constexpr int kForksFd = 3;
inline constexpr int kControlFd = 3;   // memory: Control
inline constexpr int kTensorsFd = 4;   // memory: the arena
inline constexpr int kInfoFd = 5;      // memory: pack_kernels(), or an error
inline constexpr int kGoFd = 6;        // eventfd, to the worker
inline constexpr int kDoneFd = 7;      // eventfd, from the worker
inline constexpr int kLifelineFd = 8;  // pipe: closed when the program ends
inline constexpr int kFirstFreeFd = 9;

// A request over that socket. The reply is one int32_t: a worker's id, or its
// status from waitpid(). The descriptors of a new worker are sent with it.
struct ForkRequest {
  enum What : int32_t { kFork = 1, kReap = 2 };
  int32_t what = 0;
  int32_t worker = 0;  // to be reaped
};

struct WorkerDescriptors {
  int control, tensors, info, go, done, lifeline, output;
};

// Exit statuses of a worker; kernels may exit with anything, so the block of
// memory has the last word.
inline constexpr int kUsageExit = 2;
inline constexpr int kProtocolExit = 118;
inline constexpr int kSignalExit = 119;
inline constexpr int kDeviceExit = 120;  // the reply reports the loss
inline constexpr int kForkedExit = 121;  // the crash record reports the fork

// How the worker ended up with its library.
enum class LoadState : uint32_t { kLoading, kLoaded, kRefused, kMismatch };

// The place of a fault in memory that the kernel itself had allocated
// (guarded_heap.h).
struct HeapFault {
  bool found = false;
  bool is_write = false;
  bool before_start = false;
  int64_t distance = 0;  // bytes past the end, or before the start
  int64_t block_bytes = 0;
};

struct CrashRecord {
  std::atomic<int32_t> signal;  // 0: none
  int32_t code;                 // siginfo's
  int32_t is_write;
  int32_t stack_overflow;
  uint64_t address;
  HeapFault heap;  // memory that the kernel allocated
  // A process that the kernel forked came back out of it.
  std::atomic<int32_t> forked;
};

struct Slot {
  CallPlan plan;                               // from the program
  std::array<uint64_t, kTensorCount> address;  // from the worker
  CallReply reply;
};

struct Control {
  uint64_t layout;  // kControlLayout of the program
  std::atomic<uint32_t> load_state;
  int32_t kernel;
  int32_t count;  // of slots to run; 0: end
  // The slot at work; -1 before the first, `count` after the last.
  std::atomic<int32_t> current;
  CrashRecord crash;
  std::array<Slot, kSlotCount> slots;
};

// A worker of another build is refused if the block looks different to it.
inline constexpr uint64_t kControlLayout =
    sizeof(Control) * 1000003 + sizeof(KernelInfo) * 1009 +
    sizeof(qkvet_forward_args) + sizeof(qkvet_layer_args) * 7 +
    sizeof(qkvet_cache_args) * 13 + sizeof(qkvet_cache_config) * 17;

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_WORKER_PROTOCOL_H_
