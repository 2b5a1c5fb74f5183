// SPDX-License-Identifier: Apache-2.0
// Whether a fault of the catalogue answers as the kernel under test did.
#ifndef QKVET_DIAGNOSIS_MATCH_H_
#define QKVET_DIAGNOSIS_MATCH_H_

#include <span>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

// What a hypothesis says of a piece of evidence.
enum class Word : uint8_t {
  kSilent,      // nothing: it knows no such call
  kPredicted,   // this is what it predicts
  kContradicts  // it predicts something else
};

// `predicted` is what the fault answered to the evidence's calls, in the form
// of the kernel's own outcomes.
//
// Both compute the same wrong function if the hypothesis is right, each with
// its own rounding. How far that may carry either of them is known of the right
// function only: its bounds stand in for those of the wrong one, a few times
// wider. Nothing passes or fails by this.
Word compare_answers(Evidence& evidence, const JudgedKernel& kernel,
                     const JudgedKernel& fault,
                     std::span<const CallOutcome> predicted);

// An outcome that says nothing: the call was not taken.
bool says_nothing(const KernelCall& call, const CallOutcome& outcome);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_MATCH_H_
