// SPDX-License-Identifier: Apache-2.0
// Compares a kernel with a golden set: whether its outputs are correct, and
// whether they are those of the set. These are two questions: after a change of
// compiler a kernel may give other bits and be as right as before.
#ifndef QKVET_GOLDEN_CHECK_VERIFY_H_
#define QKVET_GOLDEN_CHECK_VERIFY_H_

#include <optional>
#include <string>

#include "golden/format/set.h"
#include "properties/checking/case_work.h"
#include "properties/run/runner.h"

namespace qkvet::golden {

// Whether the expected numbers agree with the definition: within the error of
// their source's arithmetic, and read in its dialect. Unsupported where this is
// unknown: for recordings, and for calls that QKVet does not judge.
Judgement judge_source(const GoldenSet& set, TimeUse& time);

// By how much the outputs of a kernel differ from those that were recorded.
struct Change {
  int64_t elements = 0;
  int64_t changed = 0;   // with other bits; zeros of both signs are the same
  double most_ulps = 0;  // distance of the worst, in numbers of its type
  double most_of_bound = 0;  // the same, in units of the bound
  std::string where;         // "o[b=0,h=0,i=1,c=0]"; "" if nothing changed
};

struct SetVerdict {
  Judgement correct;   // against the definition
  Judgement expected;  // against the numbers of the set, of those who made them
  std::optional<Change> change;  // of recordings, stored in the kernel's type
};

// Runs the kernel on the set. `judged` must stay where it is.
SetVerdict verify_set(const GoldenSet& set, const JudgedKernel& kernel,
                      int index, Executor& executor, TimeUse& time);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_CHECK_VERIFY_H_
