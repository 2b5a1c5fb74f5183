// SPDX-License-Identifier: Apache-2.0
// Compares the answers of a fault of the catalogue with those of the kernel.
#ifndef QKVET_DIAGNOSIS_MATCH_H_
#define QKVET_DIAGNOSIS_MATCH_H_

#include <span>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

// The verdict of a hypothesis on a piece of evidence.
enum class Word : uint8_t {
  kSilent,      // no prediction: it does not support the call
  kPredicted,   // this is what it predicts
  kContradicts  // it predicts something else
};

// `predicted` holds the fault's answers to the evidence's calls, in the form of
// the kernel's own outcomes.
//
// If the hypothesis is right, both compute the same wrong function, each with
// its own rounding. Error bounds are derived for the right function only; they
// are used here for the wrong one, a few times wider. No verdict depends on
// this.
Word compare_answers(Evidence& evidence, const JudgedKernel& kernel,
                     const JudgedKernel& fault,
                     std::span<const CallOutcome> predicted);

// Whether the outcome is no evidence: the call was not taken.
bool says_nothing(const KernelCall& call, const CallOutcome& outcome);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_MATCH_H_
