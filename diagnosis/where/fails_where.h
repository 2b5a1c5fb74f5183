// SPDX-License-Identifier: Apache-2.0
// Describes where a kernel fails: the simplest sentence about cases that holds
// for chosen cases, and then for fresh ones.
#ifndef QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_
#define QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_

#include <optional>
#include <string>
#include <vector>

#include "diagnosis/evidence/evidence.h"
#include "diagnosis/where/hypothesis.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// The most cases that are run to find a sentence.
inline constexpr int kMostWhereCases = 600;
// The largest average number of calls per case, by a law or in a story.
inline constexpr int kCallsOfCase = 16;

// Predicted verdicts of fresh cases.
struct FreshVerdicts {
  int right = 0, all = 0;
  int failing = 0;  // of all

  void add(bool predicted, bool failed) {
    ++all;
    failing += failed;
    right += failed == predicted;
  }
  // The requirement for a sentence: right in nineteen of twenty cases.
  bool are_right() const { return all > 0 && 20 * right >= 19 * all; }
  // A sentence is reported if one that is wrong in every twentieth case would
  // have so few misses at most once in ten times: none in 45 cases, three in
  // 150, seven in 250.
  bool are_believable() const;
  // Compares with another sentence; an equal one is better, because it was
  // found later.
  bool are_better_than(const FreshVerdicts& other) const;
};

struct FailsWhere {
  Hypothesis hypothesis;
  std::optional<Setting> setting;  // nullopt: none was found
  FreshVerdicts fresh;
  int failing = 0, passing = 0;  // cases that it holds for, or nearly
  // A case that passes and the failing one that it is next to.
  std::string nearest_pass, nearest_failure;
  std::string difference;  // "Tk512 passes, Tk513 fails"
  std::string left_out;    // "" or what was left out
  int calls = 0;
  bool is_recorded =
      false;  // `fresh` are recorded answers that the sentence was not made of
  // Each predicate has evidence: cases that lack only it pass.
  bool is_confirmed = true;

  bool is_known() const {
    return setting.has_value() && fresh.are_believable() && is_confirmed;
  }
  // For a sentence that is not known: whether it is worth printing.
  bool is_nearly_right() const;
  // Whether the sentence is about the size of scores.
  bool is_of_scores() const;
  // For people: "where Tk > 512, on normal data: ..."; "" if nothing is known.
  std::string text() const;
};

// The failure must be steady and no hang.
FailsWhere look_where_it_fails(const Failure& failure,
                               const EvidencePool& pool);

// The same for recorded answers: half of them, taken in turns, are used to find
// the sentence, and the others to check it. No setting if there are too few.
FailsWhere look_where_answers_fail(const Failure& failure,
                                   const EvidencePool& pool);

// Checks the sentence against `count` cases of another seed.
FreshVerdicts predict_fresh(const FailsWhere& where, uint64_t seed, int count,
                            const EvidencePool& pool);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_FAILS_WHERE_H_
