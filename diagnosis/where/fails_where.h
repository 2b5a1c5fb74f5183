// SPDX-License-Identifier: Apache-2.0
// Where a kernel fails: the simplest sentence in the words of cases that is
// true of cases which were asked for on purpose, and then of fresh ones.
#ifndef QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_
#define QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_

#include <optional>
#include <string>
#include <vector>

#include "diagnosis/where/hypothesis.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// The most cases that a kernel is asked to find its sentence.
inline constexpr int kMostWhereCases = 600;
// Calls that a law makes of one of them, or a story: on average, at most.
inline constexpr int kCallsOfCase = 16;

// Verdicts that were predicted, of cases that nobody had asked before.
struct FreshVerdicts {
  int right = 0, all = 0;
  int failing = 0;  // of all

  // What is asked of a sentence: right in nineteen of twenty cases.
  bool are_right() const { return all > 0 && 20 * right >= 19 * all; }
  // It is said where so few misses would come of a sentence that is wrong in
  // every twentieth case once in ten times at most: none in 45 cases, three in
  // 150, seven in 250.
  bool are_believable() const;
  // Those of another sentence; as good is better, for it was made later.
  bool are_better_than(const FreshVerdicts& other) const;
};

// A case that has been answered, under a law.
struct AnsweredCase {
  const Law* law = nullptr;
  Case value;
};
// Where a kernel cannot be asked again: what it was asked, all of it, in the
// order in which it is to be heard.
using Answered = std::vector<AnsweredCase>;

struct FailsWhere {
  Hypothesis hypothesis;
  std::optional<Setting> setting;  // nothing: it could not be looked for
  FreshVerdicts fresh;
  int failing = 0, passing = 0;  // cases that it is true of, or nearly
  // A case that passes and the failing one that it is next to.
  std::string nearest_pass, nearest_failure;
  std::string difference;  // "Tk512 passes, Tk513 fails"
  std::string left_out;    // "" or what was not looked at
  int calls = 0;
  bool is_recorded =
      false;  // fresh are recorded answers that it was not made of
  // Each predicate was seen to decide: cases that lack it alone pass.
  bool is_confirmed = true;

  bool is_known() const {
    return setting.has_value() && fresh.are_believable() && is_confirmed;
  }
  // Of a sentence that is not known: whether it is worth printing.
  bool is_nearly_right() const;
  // Whether it says so of the size of scores.
  bool is_of_scores() const;
  // For people: "where Tk > 512, on normal data: ..."; "" if nothing is known.
  std::string text() const;
};

// The failure must be steady and no hang.
FailsWhere look_where_it_fails(const Failure& failure,
                               const KernelUnderTest& kernel,
                               Executor& executor, TimeUse& time);

// The same of answers that were recorded: half of them, taken in turns, find
// the sentence, and the others are what it is held against. No setting where
// there are too few.
FailsWhere look_where_answers_fail(const Failure& failure,
                                   const KernelUnderTest& kernel,
                                   Executor& executor, const Answered& answered,
                                   TimeUse& time);

// Holds the sentence against `count` cases of another seed.
FreshVerdicts predict_fresh(const FailsWhere& where, uint64_t seed, int count,
                            const KernelUnderTest& kernel, Executor& executor,
                            TimeUse& time);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_
