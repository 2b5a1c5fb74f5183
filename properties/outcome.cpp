// SPDX-License-Identifier: Apache-2.0
#include "properties/outcome.h"

namespace qkvet {
namespace {

const char* placement_text(Placement placement) {
  switch (placement) {
    case Placement::kEnd:
      return "each tensor ends at a guard page";
    case Placement::kEndAligned:
      return "each tensor lies on 64 bytes, near a guard page behind it";
    case Placement::kStart:
      return "each tensor begins at a guard page";
  }
  return "";
}

// "READ of k, 0 bytes past its end (k has 80 bytes)"
std::string fault_text(const MemoryFault& fault) {
  const std::string verb = fault.is_write ? "WRITE of " : "READ of ";
  if (!fault.tensor) return verb + "memory that belongs to no tensor";
  const std::string name = tensor_name(*fault.tensor);
  const std::string size =
      " (" + name + " has " + std::to_string(fault.tensor_bytes) + " bytes)";
  const std::string bytes = std::to_string(fault.bytes) + " bytes ";
  if (fault.inside)
    return verb + name + ", " + bytes + "from its start, which is read-only" +
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

// The call came back; did it keep to its own memory and write all of it?
std::optional<Judgement> judge_traces(const CallOutcome& outcome,
                                      const std::string& where) {
  if (outcome.damage)
    return failed(FailureKind::kMemory, where,
                  "bytes beside the tensors stay as they were",
                  fault_text(*outcome.damage));
  if (outcome.unwritten)
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

}  // namespace

std::optional<Judgement> judge_outcome(const PlannedCall& planned,
                                       const CallOutcome& outcome) {
  const std::string where = placement_text(planned.placement);
  switch (outcome.status) {
    case CallStatus::kDone:
      return judge_traces(outcome, where);
    case CallStatus::kUnsupported:
    case CallStatus::kUnavailable:
      return not_run(Verdict::kUnsupported, outcome.text);
    case CallStatus::kRefused:
      return failed(FailureKind::kLaw, "forward()",
                    "a result, as supports() had promised", outcome.text);
    case CallStatus::kFault:
      return failed(FailureKind::kMemory, where,
                    "only its own inputs and outputs touched",
                    outcome.fault ? fault_text(*outcome.fault) : outcome.text,
                    outcome.output);
    case CallStatus::kCrash:
      return failed(FailureKind::kCrash, "forward()", "a result", outcome.text,
                    outcome.output);
    case CallStatus::kHang:
    case CallStatus::kOutOfMemory:
      return failed(FailureKind::kHang, "forward()", "a result", outcome.text,
                    outcome.output);
    case CallStatus::kNotRun:
      return not_run(Verdict::kSkipped, "an earlier call of the batch hung");
  }
  return std::nullopt;
}

}  // namespace qkvet
