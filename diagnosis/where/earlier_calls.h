// SPDX-License-Identifier: Apache-2.0
// Whether a failure depends on the case alone, or on earlier calls in the same
// process: on a plan, a graph, scratch or a state that one call keeps and
// another finds.
#ifndef QKVET_DIAGNOSIS_WHERE_EARLIER_CALLS_H_
#define QKVET_DIAGNOSIS_WHERE_EARLIER_CALLS_H_

#include <string>
#include <vector>

#include "diagnosis/evidence/evidence.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {

// The most calls that are made to find out, for all failures of a kernel.
inline constexpr int kMostEarlierCalls = 4000;

struct EarlierCalls {
  enum class Part : uint8_t {
    kNone,      // the case fails by itself, or it is not known
    kUnknown,   // the case passes in a new process; the calls that make it fail
                // are not known
    kOfLaw,     // a later call of the law fails because of an earlier one
    kTheseOnes  // the case passes in a new process, and fails there after these
  };
  Part part = Part::kNone;
  std::vector<Case> before;

  // True only after calls were made: twice with the deciding ones, and without.
  bool decide() const {
    return part == Part::kOfLaw || part == Part::kTheseOnes;
  }
  // "An earlier call decides: ...", or that none was found that does.
  std::string text() const;
};

// Uses only the calls of the failure itself: without `before`.
EarlierCalls part_of_earlier_calls(const Failure& failure, Witness& witness);

// Whether agreement accepts the case by itself.
bool is_right_in_new_process(const Case& value, Witness& witness);

// Whether the case fails after these calls and passes without them, each twice
// and in a new process.
bool calls_decide(const std::vector<Case>& before, const Failure& failure,
                  Witness& witness);

// Looks for calls after which a case fails that passes in a new process.
std::vector<Case> find_earlier_calls(const Failure& failure,
                                     const KernelUnderTest& kernel,
                                     Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_EARLIER_CALLS_H_
