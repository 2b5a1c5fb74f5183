// SPDX-License-Identifier: Apache-2.0
// Why a kernel fails, as far as further calls can tell. Each hypothesis
// predicts what the kernel answers; one wrong prediction and it is dropped.
#ifndef QKVET_DIAGNOSIS_DIAGNOSE_H_
#define QKVET_DIAGNOSIS_DIAGNOSE_H_

#include <string>
#include <vector>

#include "diagnosis/catalogue.h"
#include "diagnosis/instead/instead.h"
#include "diagnosis/where/earlier_calls.h"
#include "diagnosis/where/fails_where.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {

// The most calls that one diagnosis makes of a kernel to find its cause: for
// the hypotheses, around the failure and beyond it, and for neighbours.
inline constexpr int kMostInquiryCalls = 150;
inline constexpr int kMostCallsBeyond = 200;
inline constexpr int kMostHiddenCalls = 150;
inline constexpr int kMostDiagnosisCalls =
    kMostInquiryCalls + kMostCallsBeyond + kMostHiddenCalls;

enum class Certainty : uint8_t {
  kUnknown,  // no hypothesis predicts what the kernel does
  kLikely,   // several do, or there was too little to hold it against
  kSure      // one does, and all others were wrong somewhere
};

struct Cause {
  std::string name;   // "tail_tile_unmasked"
  std::string cause;  // sentences
  std::string fix;
  std::vector<std::string> laws;
};

struct Diagnosis {
  Certainty certainty = Certainty::kUnknown;
  std::vector<Cause> causes;  // the likeliest first; empty if unknown
  int predicted = 0;          // failing probes that all causes predict ...
  int failing = 0;            // ... of so many
  int probes = 0;             // passing ones as well
  int calls = 0;              // of the kernel
  EarlierCalls earlier;       // if they decide, nothing is said of the case
  FailsWhere where;           // the sentence about where it fails
  Instead instead;            // what its numbers are, and since which stage
  // Further observations: neighbours that pass and fail, threads; "" if there
  // are none.
  std::string hidden;
  // Facts that are certain although the cause is unknown: "every element of o
  // is NaN, for every input that was tried"; "" if there are none.
  std::string seen;
  std::string left_out;  // "" or why fewer probes were made than there are
  // "scale_times_8": the name of the first cause; "unknown".
  std::string name() const {
    return causes.empty() ? "unknown" : causes[0].name;
  }
};

// That of a failure which earlier calls decide.
Diagnosis diagnosis_of(EarlierCalls earlier);

// The failure must be one that was repeated and shrunk, or with `answered` one
// of those.
Diagnosis diagnose(const Failure& failure, const KernelUnderTest& kernel,
                   Executor& executor, const Catalogue& catalogue,
                   TimeUse& time, const Answered* answered = nullptr);

// Failures of one kernel that have the same cause.
struct CauseOfFailures {
  Diagnosis diagnosis;
  // The one that explains the cause best, and the others.
  const Failure* best = nullptr;
  std::vector<const Failure*> others;
};

// `failures` in the order of the laws.
std::vector<CauseOfFailures> diagnose_all(
    const std::vector<const Failure*>& failures, const KernelUnderTest& kernel,
    Executor& executor, const Catalogue& catalogue, TimeUse& time,
    const Answered* answered = nullptr);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_DIAGNOSE_H_
