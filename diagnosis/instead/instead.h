// SPDX-License-Identifier: Apache-2.0
// What a kernel answers instead of the right numbers, and at which stage it
// goes wrong: said where it is true of all wrong elements of several failing
// cases, and not at all else.
#ifndef QKVET_DIAGNOSIS_INSTEAD_INSTEAD_H_
#define QKVET_DIAGNOSIS_INSTEAD_INSTEAD_H_

#include <functional>
#include <string>
#include <vector>

#include "diagnosis/instead/description.h"
#include "diagnosis/where/fails_where.h"

namespace qkvet::diagnosis {

// The most calls that are made to find it.
inline constexpr int kMostInsteadCalls = 120;

// Of one output.
struct OutputInstead {
  TensorName output = TensorName::kO;
  // "the right value times sqrt(d)"; "" if nothing is true of all.
  std::string text;
  int elements = 0;  // wrong ones, of all ...
  int cases = 0;     // ... failing cases that were looked at
  Stage stage = Stage::kUnknown;
  // Whether a further failing answer is as it says; null without a text. It may
  // be asked as long as the kernel and the clock live that it was made with.
  std::function<bool(const WrongAnswer& answer, const WrongOutput& output)>
      is_true_of;
};

struct Instead {
  std::vector<OutputInstead> outputs;  // those that are wrong
  int cases = 0;                       // failing ones that were looked at
  Stage stage = Stage::kUnknown;
  std::string gradients;  // "dk (dq and dv are right)"
  std::string left_out;   // "" or what was not looked at
  int calls = 0;

  // For people: "o is the right value times sqrt(d): all of 96 wrong elements
  // in 8 failing cases."; "" where too little failed to tell.
  std::string text() const;
  // "the scores (...)"; "" if it is not known.
  std::string stage_sentence() const;
};

// Of a steady failure that is no hang. `answered`: all that can be asked, or
// null. `where` is what was found out before, or nothing.
Instead look_what_it_is_instead(const Failure& failure, const FailsWhere& where,
                                const KernelUnderTest& kernel,
                                Executor& executor, TimeUse& time,
                                const Answered* answered = nullptr);

// Whether the descriptions are true of failing cases of another seed.
struct InsteadScore {
  int right = 0, all = 0;  // wrong outputs of fresh cases with a description
};
InsteadScore score_instead(const Instead& instead, const Failure& failure,
                           const FailsWhere& where,
                           const KernelUnderTest& kernel, Executor& executor,
                           TimeUse& time, uint64_t seed, int count);

// --- for instead.cpp: stage.cpp

// The stage that probes show for failing answers of attention: the same calls
// with q = 0, with V = 1 and with V one-hot, so that the output is the weights.
Stage probed_stage(const std::vector<WrongAnswer>& answers, Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_INSTEAD_H_
