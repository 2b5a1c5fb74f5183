// SPDX-License-Identifier: Apache-2.0
// Finds out why a kernel fails by further calls. Each hypothesis predicts the
// kernel's answers; after one wrong prediction it is dropped.
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
  kUnknown,  // no hypothesis predicts the kernel's answers
  kLikely,   // several do, or there was too little evidence
  kSure      // one does, and all others made a wrong prediction
};

struct Diagnosis {
  Certainty certainty = Certainty::kUnknown;
  std::vector<Cause> causes;  // the likeliest first; empty if unknown
  int predicted = 0;          // failing probes that all causes predict ...
  int failing = 0;            // ... of so many
  int probes = 0;             // passing ones as well
  int calls = 0;              // of the kernel
  EarlierCalls earlier;  // if they decide, the case itself is not described
  FailsWhere where;      // the sentence about where it fails
  Instead instead;       // its numbers, and the stage at which they go wrong
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

// The diagnosis of a failure that earlier calls decide.
Diagnosis diagnosis_of(EarlierCalls earlier);

// The failure must have been repeated and shrunk, or, with `answered`, be
// recorded.
Diagnosis diagnose(const Failure& failure, const KernelUnderTest& kernel,
                   Executor& executor, const Catalogue& catalogue,
                   TimeUse& time, const Answered* answered = nullptr);

// Failures of one kernel that have the same cause.
struct CauseOfFailures {
  Diagnosis diagnosis;
  // The failure that is most informative about the cause, and the others.
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
