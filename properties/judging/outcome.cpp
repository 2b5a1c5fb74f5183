// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/outcome.h"

#include "core/door/call_plan.h"

namespace qkvet::properties {
namespace {

// A device has no guard pages.
const char* device_place_text(Placement placement) {
  switch (placement) {
    case Placement::kEnd:
      return "each tensor ends at NaN, in memory of a device";
    case Placement::kEndAligned:
      return "each tensor is aligned to 64 bytes between NaN, in memory of a "
             "device, and the call has its own stream";
    case Placement::kStart:
      return "each tensor begins after NaN, in memory of a device";
  }
  return "";
}

const char* placement_text(Placement placement) {
  switch (placement) {
    case Placement::kEnd:
      return "each tensor ends at a guard page";
    case Placement::kEndAligned:
      return "each tensor is aligned to 64 bytes, near a guard page after it";
    case Placement::kStart:
      return "each tensor begins at a guard page";
  }
  return "";
}

// "READ of k, 0 bytes past its end (k has 80 bytes)"
std::string fault_text(const MemoryFault& fault) {
  const std::string verb = fault.is_write ? "WRITE of " : "READ of ";
  if (!fault.tensor && !fault.of_reason && !fault.of_heap)
    return verb + "memory that belongs to no tensor";
  const std::string name = owner_name(fault);
  const std::string size = " (" + (fault.of_heap ? "this piece of it" : name) +
                           " has " + std::to_string(fault.tensor_bytes) +
                           " bytes)";
  const std::string bytes = std::to_string(fault.bytes) + " bytes ";
  if (fault.between)
    return verb + name + ", " + bytes +
           "from its start, where none of its parts lies, which are far apart" +
           size;
  if (fault.inside)
    return verb + name + ", " + bytes + "from its start, " +
           (fault.tensor && is_output(*fault.tensor)
                ? "which lie between its elements"
                : "which is read-only") +
           size;
  return verb + name + ", " + bytes +
         (fault.before_start ? "before its start" : "past its end") + size;
}

Judgement failed(FailureKind kind, std::string where, std::string expected,
                 std::string actual, std::string printed = "") {
  Judgement judgement;
  judgement.verdict = Verdict::kFailed;
  judgement.kind = kind;
  judgement.compared = 1;
  Finding finding;
  finding.where = std::move(where);
  finding.expected = std::move(expected);
  finding.actual = std::move(actual);
  finding.printed = std::move(printed);
  judgement.finding = std::move(finding);
  return judgement;
}

Judgement not_run(Verdict verdict, const std::string& reason) {
  Judgement judgement;
  judgement.verdict = verdict;
  judgement.reason = reason;
  return judgement;
}

Judgement refused(const CallOutcome& outcome) {
  Judgement judgement = not_run(Verdict::kUnsupported, outcome.text);
  judgement.about = refusal_is_about(outcome);
  return judgement;
}

// ", equal call 1001" where the call was made many times over.
std::string nth_text(const CallOutcome& outcome) {
  const int64_t made = outcome.repeated.made;
  return made > 0 ? ", equal call " + std::to_string(made) : "";
}

// Judges a call that came back: whether it kept to its own memory and wrote all
// of it.
std::optional<Judgement> judge_traces(const CallOutcome& outcome,
                                      const std::string& where,
                                      bool may_be_unwritten) {
  if (outcome.damage)
    return failed(FailureKind::kMemory, where,
                  "bytes beside the tensors stay as they were",
                  fault_text(*outcome.damage));
  if (outcome.unwritten && !may_be_unwritten)
    return failed(FailureKind::kMemory, where, "every output element written",
                  std::string(tensor_name(*outcome.unwritten)) + ": element " +
                      std::to_string(outcome.unwritten_index) +
                      " was never written");
  if (outcome.dirty_environment)
    return failed(FailureKind::kMemory, where,
                  "the floating-point environment as it was",
                  "rounding mode, flush-to-zero or exception masks changed");
  return std::nullopt;
}

// "forward()", "update() and run()", "step.a.2"
std::string call_place(const PlannedCall& planned) {
  switch (planned.operation) {
    case Operation::kForward:
      switch (planned.plan_use) {
        case PlanUse::kNone:
          return "forward()";
        case PlanUse::kMake:
          return "plan() and run()";
        case PlanUse::kUpdate:
          return "update() and run()";
        case PlanUse::kRun:
          return "run()";
      }
      return "";
    case Operation::kBackward:
      return "backward()";
    case Operation::kLayer:
      return "the layer's forward()";
    case Operation::kLayerBackward:
      return "layer_backward()";
    case Operation::kMerge:
      return planned.in_place ? "merge(), in place" : "merge()";
    case Operation::kCacheCreate:
      return "create()";
    default:
      return command_text(planned.snapshot->command);
  }
}

// An error where a result was due.
Judgement judge_refusal(const PlannedCall& planned,
                        const CallOutcome& outcome) {
  const char* expected = planned.operation == Operation::kForward
                             ? "a result: the call is declared"
                             : "a result: the call is legal";
  return failed(FailureKind::kLaw, call_place(planned) + nth_text(outcome),
                expected, outcome.text);
}

}  // namespace

std::optional<Judgement> judge_outcome(const PlannedCall& planned,
                                       const CallOutcome& outcome) {
  const std::string placement = outcome.on_device
                                    ? device_place_text(planned.placement)
                                    : placement_text(planned.placement);
  const std::string where = planned.operation == Operation::kForward
                                ? placement
                                : call_place(planned) + ", " + placement;
  // Also for a call that must be refused.
  if (outcome.damage && outcome.damage->of_reason)
    return failed(FailureKind::kMemory, call_place(planned),
                  "no more than `capacity` bytes of `why` written",
                  fault_text(*outcome.damage));
  switch (outcome.status) {
    case CallStatus::kDone:
      return judge_traces(outcome, where, planned.expects_refusal);
    case CallStatus::kUnsupported:
      // A call that is not declared never reaches the kernel, and the kernel's
      // own refusal is required.
      if (planned.expects_refusal && !outcome.asked_kernel &&
          !outcome.gave_reason)
        return refused(outcome);
      if (planned.expects_refusal || planned.only_between) return std::nullopt;
      return refused(outcome);
    case CallStatus::kUnavailable:
      return not_run(Verdict::kUnsupported, outcome.text);
    case CallStatus::kRefused:
      if (planned.expects_refusal)
        return judge_traces(outcome, where, /*may_be_unwritten=*/true);
      return judge_refusal(planned, outcome);
    case CallStatus::kFault:
      return failed(FailureKind::kMemory, where + nth_text(outcome),
                    "only its own inputs and outputs touched",
                    outcome.fault ? fault_text(*outcome.fault) : outcome.text,
                    outcome.output);
    case CallStatus::kCrash:
      return failed(FailureKind::kCrash,
                    call_place(planned) + nth_text(outcome), "a result",
                    outcome.text, outcome.output);
    case CallStatus::kHang:
    case CallStatus::kOutOfMemory:
      return failed(FailureKind::kHang, call_place(planned) + nth_text(outcome),
                    "a result", outcome.text, outcome.output);
    case CallStatus::kNotRun:
      return not_run(Verdict::kSkipped,
                     "an earlier call of the batch hung or died");
  }
  return std::nullopt;
}

}  // namespace qkvet::properties
