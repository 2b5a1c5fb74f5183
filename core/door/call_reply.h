// SPDX-License-Identifier: Apache-2.0
// The reply to a call, in plain data.
#ifndef QKVET_CORE_DOOR_CALL_REPLY_H_
#define QKVET_CORE_DOOR_CALL_REPLY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/call/call.h"
#include "core/door/call_plan.h"
#include "qkvet/kernel.h"

namespace qkvet {

// The foreign function that is running: a crash happened in it.
enum class Phase : uint32_t {
  kOutside,
  kOpen,
  kSupports,
  kWorkspace,
  kForward,
  kBackward,
  kLayer,
  kCreate,
  kDestroy,
  kStep,
  kReset,
  kTruncate,
  kEvict,
  kFork,
  kReorder,
  kReadBack,
  kLength,
  kMemory,
  kLayerBackward,
  kMerge,
  kPlan,
  kUpdate,
  kRun
};

// The result of a call. It is in memory that two processes share, so the reader
// checks every field.
struct CallReply {
  static constexpr size_t kTextBytes = 512;

  std::atomic<uint32_t> phase{0};  // Phase
  uint32_t status = 0;             // CallStatus
  uint32_t gave_reason = 0;
  uint32_t dirty_environment = 0;
  uint32_t workspace_damaged = 0;
  uint32_t lengths_known = 0;
  uint32_t without_memory = 0;  // nothing was called
  uint32_t device_lost = 0;     // by this call: nothing works there any more
  uint32_t device_trace = 0;    // DeviceTrace::Side
  uint32_t device_tensor = 0;   // TensorName
  double seconds = 0;
  int64_t cache_bytes = -1;      // -1: unknown
  uint64_t workspace = 0;        // address; 0: none
  int64_t workspace_bytes = 0;   // requested
  int64_t workspace_damage = 0;  // Workspace::damage()
  uint32_t reason_damaged = 0;   // beside the text of a reason
  int64_t reason_damage = 0;     // as Workspace::damage()
  int64_t device_bytes = 0;      // DeviceTrace::bytes
  // Belongs to the first call of a group; a new call does not change it.
  RepeatedCall repeated;
  std::array<int64_t, kMostCacheSequences> lengths{};
  char text[kTextBytes] = {};

  // As before a call.
  void clear();
  void enter(Phase next) {
    phase.store(static_cast<uint32_t>(next), std::memory_order_release);
  }
  void answer(CallStatus answer, const std::string& line);
};

// The caller's buffer for the reasons of a library, with guard bytes on either
// side: a final zero at [capacity] is a common mistake.
class Reason {
 public:
  // The destructor reports writes into the guard bytes in the reply.
  explicit Reason(CallReply* reply);
  Reason(const Reason&) = delete;
  Reason& operator=(const Reason&) = delete;
  ~Reason();

  qkvet_text* text() { return &text_; }
  std::string line();

 private:
  static constexpr size_t kGuard = 64;

  CallReply* reply_;
  std::array<char, kGuard + CallReply::kTextBytes + kGuard> memory_{};
  qkvet_text text_{sizeof(qkvet_text), memory_.data() + kGuard,
                   CallReply::kTextBytes};
};

// "step() returned INVALID_ARGUMENT: too many tokens"
std::string status_line(const char* function, qkvet_status status,
                        const std::string& reason);

inline constexpr char kOverwritten[] =
    "the kernel wrote over the memory of its host";

// The outcome from a reply, with every field checked. `plan` is the program's
// own.
CallOutcome outcome_of(const CallReply& reply, const CallPlan& plan);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_CALL_REPLY_H_
