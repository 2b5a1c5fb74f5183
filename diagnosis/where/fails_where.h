// SPDX-License-Identifier: Apache-2.0
// Where a kernel fails: the simplest sentence in the words of cases that is
// true of cases which were asked for on purpose, and then of fresh ones.
#ifndef QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_
#define QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_

#include <optional>
#include <string>

#include "diagnosis/where/hypothesis.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// The most cases that a kernel is asked to find its sentence.
inline constexpr int kMostWhereCases = 400;

// Verdicts that were predicted, of cases that nobody had asked before.
struct FreshVerdicts {
  int right = 0, all = 0;
  int failing = 0;  // of all

  // A sentence is believed from here on.
  bool are_right() const { return all > 0 && 20 * right >= 19 * all; }
};

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

  bool is_known() const { return setting.has_value() && fresh.are_right(); }
  // For people: "where Tk > 512, on normal data: ..."; "" if nothing is known.
  std::string text() const;
};

// The failure must be steady and no hang.
FailsWhere look_where_it_fails(const Failure& failure,
                               const KernelUnderTest& kernel,
                               Executor& executor, TimeUse& time);

// Holds the sentence against `count` cases of another seed.
FreshVerdicts predict_fresh(const FailsWhere& where, uint64_t seed, int count,
                            const KernelUnderTest& kernel, Executor& executor,
                            TimeUse& time);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_
