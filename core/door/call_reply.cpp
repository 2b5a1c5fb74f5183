// SPDX-License-Identifier: Apache-2.0
#include "core/door/call_reply.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/door/abi_call.h"
#include "core/door/canary.h"
#include "core/door/crash_report.h"
#include "core/door/device_tensors.h"
#include "core/door/kernel_reader.h"

namespace qkvet {
namespace {

// The least number, which a kernel may have written there, has no opposite.
int64_t distance(int64_t bytes) {
  return std::abs(std::max(bytes, -std::numeric_limits<int64_t>::max()));
}

// Reports a forbidden write of a call on a device. On the CPU a guard page or a
// read-only mapping would have caught a write into an input or beside it.
void read_trace(const CallReply& reply, const CallPlan& plan,
                CallOutcome* outcome) {
  using Side = DeviceTrace::Side;
  const auto side = static_cast<Side>(reply.device_trace);
  if (side == Side::kNone || side > Side::kInside ||
      reply.device_tensor >= kTensorCount)
    return;
  MemoryFault fault;
  fault.tensor = static_cast<TensorName>(reply.device_tensor);
  fault.is_write = true;
  fault.before_start = side == Side::kBefore;
  fault.inside = side == Side::kInside;
  fault.bytes = distance(reply.device_bytes);
  fault.tensor_bytes = plan.tensors[reply.device_tensor].span_bytes();
  if (is_output(*fault.tensor)) {
    outcome->damage = fault;
    return;
  }
  outcome->status = CallStatus::kFault;
  outcome->text = fault_text(fault);
  outcome->fault = fault;
}

}  // namespace

void CallReply::clear() {
  phase = 0;
  status = 0;
  gave_reason = 0;
  dirty_environment = 0;
  workspace = 0;
  workspace_damaged = 0;
  reason_damaged = 0;
  lengths_known = 0;
  without_memory = 0;
  device_lost = 0;
  device_trace = 0;
  seconds = 0;
  cache_bytes = -1;
  text[0] = 0;
}

void CallReply::answer(CallStatus answer, const std::string& line) {
  status = static_cast<uint32_t>(answer);
  const size_t size = std::min(line.size(), kTextBytes - 1);
  std::memcpy(text, line.data(), size);
  text[size] = 0;
}

Reason::Reason(CallReply* reply) : reply_(reply) {
  const Canary canary(1);
  auto* const memory = reinterpret_cast<std::byte*>(memory_.data());
  canary.fill(memory, 0, kGuard);
  canary.fill(memory, static_cast<int64_t>(kGuard + CallReply::kTextBytes),
              static_cast<int64_t>(memory_.size()));
}

Reason::~Reason() {
  constexpr int64_t kBegin = kGuard;
  constexpr int64_t kEnd = kBegin + int64_t{CallReply::kTextBytes};
  const auto* const memory = reinterpret_cast<const std::byte*>(memory_.data());
  const Canary canary(1);
  const int64_t behind =
      canary.first_damage(memory, kEnd, static_cast<int64_t>(memory_.size()));
  const int64_t before = canary.last_damage(memory, 0, kBegin);
  if (behind < 0 && before < 0) return;
  reply_->reason_damaged = 1;
  reply_->reason_damage = behind >= 0 ? behind - kEnd : before - kBegin;
}

std::string Reason::line() {
  return one_line(memory_.data() + kGuard, CallReply::kTextBytes - 1);
}

std::string status_line(const char* function, qkvet_status status,
                        const std::string& reason) {
  // Messages about what Python raised or returned stay as they are.
  for (const char* const word : {"raised ", "returned: ", "wrote "})
    if (reason.starts_with(word)) return reason;
  std::string line =
      std::string(function) + "() returned " + status_name(status);
  return reason.empty() ? line : line + ": " + reason;
}

CallOutcome outcome_of(const CallReply& reply, const CallPlan& plan) {
  CallOutcome outcome;
  const bool known = reply.status <= static_cast<uint32_t>(CallStatus::kNotRun);
  outcome.status =
      known ? static_cast<CallStatus>(reply.status) : CallStatus::kCrash;
  outcome.text =
      known ? std::string(reply.text, strnlen(reply.text, sizeof reply.text))
            : kOverwritten;
  outcome.asked_kernel = reply.without_memory == 0;
  outcome.gave_reason = reply.gave_reason != 0;
  outcome.dirty_environment = reply.dirty_environment != 0;
  outcome.seconds = reply.seconds;
  outcome.repeated = reply.repeated;
  if (reply.workspace != 0)
    outcome.workspace_bytes = std::max<int64_t>(reply.workspace_bytes, 0);
  outcome.cache_bytes = std::max<int64_t>(reply.cache_bytes, -1);
  if (reply.lengths_known != 0)
    outcome.lengths.assign(
        reply.lengths.begin(),
        reply.lengths.begin() +
            std::clamp<int64_t>(plan.sequences, 0, kMostCacheSequences));
  if (reply.workspace_damaged != 0) {
    MemoryFault damage;
    damage.is_write = true;
    damage.before_start = reply.workspace_damage < 0;
    damage.bytes = distance(reply.workspace_damage);
    damage.tensor_bytes = reply.workspace_bytes;
    outcome.damage = damage;
  }
  if (reply.reason_damaged != 0) {
    MemoryFault damage;
    damage.of_reason = damage.is_write = true;
    damage.before_start = reply.reason_damage < 0;
    damage.bytes = distance(reply.reason_damage);
    damage.tensor_bytes = CallReply::kTextBytes;
    outcome.damage = damage;
  }
  read_trace(reply, plan, &outcome);
  return outcome;
}

}  // namespace qkvet
