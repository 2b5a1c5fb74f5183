// SPDX-License-Identifier: Apache-2.0
#include "core/door/crash_report.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include "core/door/guarded.h"

namespace qkvet {
namespace {

const char* signal_name(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL (illegal instruction)";
    case SIGABRT:
      return "SIGABRT";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGSYS:
      return "SIGSYS (bad system call)";
    default:
      return nullptr;
  }
}

bool is_memory_signal(int signal) {
  return signal == SIGSEGV || signal == SIGBUS;
}

// Whether an offset from the tensor's first element is outside of all its
// parts.
bool is_between_parts(const CallPlan& plan, size_t tensor, int64_t offset) {
  return plan.is_far(tensor) &&
         offset % plan.part_offset(tensor, 1) >= plan.part_bytes(tensor);
}

// The place of the fault relative to a tensor of `bytes` at `address`.
MemoryFault fault_at(const CrashRecord& crash, uint64_t address,
                     int64_t bytes) {
  MemoryFault fault;
  fault.is_write = crash.is_write != 0;
  fault.tensor_bytes = bytes;
  // The least number, which a wild address can make, has no opposite.
  const auto offset = std::max(static_cast<int64_t>(crash.address - address),
                               -std::numeric_limits<int64_t>::max());
  fault.before_start = offset < 0;
  fault.inside = offset >= 0 && offset < bytes;
  fault.bytes = fault.before_start ? -offset
                : fault.inside     ? offset
                                   : offset - bytes;
  return fault;
}

// The kernel's own signal that no address belongs to (kill, raise) has a code
// of zero or less, a non-canonical address SI_KERNEL.
bool has_address(const CrashRecord& crash) {
  return is_memory_signal(crash.signal) && crash.code > 0 &&
         crash.code != SI_KERNEL && crash.stack_overflow == 0;
}

std::optional<MemoryFault> find_fault(const CallPlan& plan, const Slot& slot,
                                      const CrashRecord& crash) {
  if (crash.heap.found) {
    MemoryFault fault;
    fault.of_heap = true;
    fault.is_write = crash.heap.is_write;
    fault.before_start = crash.heap.before_start;
    fault.bytes = crash.heap.distance;
    fault.tensor_bytes = crash.heap.block_bytes;
    return fault;
  }
  if (!has_address(crash)) return std::nullopt;
  std::optional<MemoryFault> nearest;
  for (int t = 0; t < kTensorCount; ++t) {
    if (!plan.tensors[t].present()) continue;
    const auto tensor = static_cast<size_t>(t);
    const auto room = static_cast<uint64_t>(plan.kernel_room(tensor));
    const auto guard = static_cast<uint64_t>(plan.kernel_guard(tensor));
    const uint64_t window =
        slot.address[t] - static_cast<uint64_t>(plan.places[t].start);
    if (crash.address - (window - guard) >= room + 2 * guard) continue;
    MemoryFault fault =
        fault_at(crash, slot.address[t], plan.seen(tensor).span_bytes());
    fault.tensor = static_cast<TensorName>(t);
    fault.between = fault.inside && is_between_parts(plan, tensor, fault.bytes);
    // Several tensors may share one window.
    const auto distance = [](const MemoryFault& one) {
      return one.inside ? 0 : one.bytes;
    };
    if (!nearest || distance(fault) < distance(*nearest)) nearest = fault;
  }
  if (nearest) return nearest;
  const uint64_t workspace = slot.reply.workspace;
  const int64_t bytes = slot.reply.workspace_bytes;
  if (workspace == 0 || bytes <= 0) return std::nullopt;
  const MemoryFault fault = fault_at(crash, workspace, bytes);
  if (fault.inside || fault.bytes > guard_bytes() + bytes) return std::nullopt;
  return fault;
}

const char* phase_text(uint32_t phase) {
  switch (static_cast<Phase>(phase)) {
    case Phase::kOpen:
      return " in open()";
    case Phase::kSupports:
      return " in supports()";
    case Phase::kWorkspace:
      return " in workspace()";
    case Phase::kBackward:
      return " in backward()";
    case Phase::kLayer:
      return " in the layer's forward()";
    case Phase::kLayerBackward:
      return " in layer_backward()";
    case Phase::kMerge:
      return " in merge()";
    case Phase::kPlan:
      return " in plan()";
    case Phase::kUpdate:
      return " in update()";
    case Phase::kRun:
      return " in run()";
    case Phase::kCreate:
      return " in create()";
    case Phase::kDestroy:
      return " in destroy()";
    case Phase::kStep:
      return " in step()";
    case Phase::kReset:
      return " in reset()";
    case Phase::kTruncate:
      return " in truncate()";
    case Phase::kEvict:
      return " in evict()";
    case Phase::kFork:
      return " in fork()";
    case Phase::kReorder:
      return " in reorder()";
    case Phase::kReadBack:
      return " in read_back()";
    case Phase::kLength:
      return " in length()";
    case Phase::kMemory:
      return " in memory()";
    default:
      return "";
  }
}

}  // namespace

std::string death_text(const CrashRecord& crash, int wait_status) {
  if (crash.forked != 0) return "it forked, and both processes returned";
  const int signal = crash.signal;
  const char* name = signal_name(signal);
  if (name == nullptr) {
    if (WIFSIGNALED(wait_status))
      return "killed by signal " + std::to_string(WTERMSIG(wait_status));
    return "exited with status " + std::to_string(WEXITSTATUS(wait_status));
  }
  if (crash.stack_overflow != 0) return "stack overflow";
  if (signal == SIGFPE && crash.code == FPE_INTDIV)
    return "SIGFPE (division by zero)";
  if (!is_memory_signal(signal) || crash.code <= 0) return name;
  if (crash.code == SI_KERNEL)
    return std::string(name) + " at an impossible address";
  char text[64];
  std::snprintf(text, sizeof text, "%s at address 0x%llx", name,
                static_cast<unsigned long long>(crash.address));
  return text;
}

std::string fault_text(const MemoryFault& fault) {
  const char* access = fault.is_write ? "write" : "read";
  const char* where = fault.between        ? " between the parts of "
                      : fault.inside       ? " into "
                      : fault.before_start ? " before the start of "
                                           : " past the end of ";
  return std::string(access) + where + owner_name(fault) + ", offset " +
         (fault.before_start ? "-" : "") + std::to_string(fault.bytes);
}

void report_death(const CallPlan& plan, const Slot& slot,
                  const CrashRecord& crash, int wait_status,
                  CallOutcome* outcome) {
  if (slot.reply.device_lost != 0) {
    outcome->status = CallStatus::kCrash;
    outcome->text.assign(slot.reply.text,
                         strnlen(slot.reply.text, CallReply::kTextBytes));
    return;
  }
  // Memory of a device has no guard pages, and its numbers may be anywhere
  // beside each other.
  if (!outcome->on_device) outcome->fault = find_fault(plan, slot, crash);
  outcome->status = outcome->fault ? CallStatus::kFault : CallStatus::kCrash;
  if (!outcome->fault && !outcome->on_device && has_address(crash))
    outcome->died_writing = crash.is_write != 0;
  outcome->text = (outcome->fault ? fault_text(*outcome->fault)
                                  : death_text(crash, wait_status)) +
                  phase_text(slot.reply.phase.load());
}

}  // namespace qkvet
