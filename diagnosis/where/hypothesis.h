// SPDX-License-Identifier: Apache-2.0
// A sentence about where a kernel fails, and the simplest sentences for cases
// with known verdicts.
#ifndef QKVET_DIAGNOSIS_WHERE_HYPOTHESIS_H_
#define QKVET_DIAGNOSIS_WHERE_HYPOTHESIS_H_

#include <string>
#include <vector>

#include "diagnosis/where/vocabulary.h"

namespace qkvet::diagnosis {

// One predicate of a sentence: "Tk > 512", "a mask is given", "Tk % 4 != 0".
struct Atom {
  enum class Relation : uint8_t {
    kIs,  // a flag: 1 or 0; a word; a number
    kIsNot,
    kAtLeast,
    kAtMost,
    kRemains,  // term % modulus == number
    kRemainsNot,
    kAnyOf,  // one of `parts`; `term` is unused
    kAllOf
  };
  size_t term = 0;  // of vocabulary()
  Relation relation = Relation::kIs;
  int64_t number = 0, modulus = 0;
  double cost = 0;  // how specific it is
  std::vector<Atom> parts = {};

  bool is_compound() const {
    return relation == Relation::kAnyOf || relation == Relation::kAllOf;
  }
  bool holds(const TermValues& values) const;
  // The same for a simple atom, given the value of its term.
  bool holds_for(int64_t value) const;
  Atom opposite() const;
};

struct Hypothesis {
  std::vector<Atom> atoms;  // all of them; none: every case
  bool unless = false;      // the kernel fails if not all of them hold
  int wrong = 0;            // wrong samples among those that it was made of
  double score = 0;         // low is good

  bool predicts_failure(const TermValues& values) const;
  bool is_always() const { return atoms.empty(); }
  // "Tk > 512 and a mask is given"; "every case".
  std::string sentence() const;
  // The same in the language of conditions; "" is always.
  std::string formula() const;
};

// A case with a known verdict.
struct Sample {
  TermValues values;
  bool failed = false;
};

// The simplest conjunctions of at most four atoms (the last may be "A or B"),
// and their negations ("unless"), that agree with the samples or nearly do; the
// best first, at most `most`.
std::vector<Hypothesis> simplest_hypotheses(const std::vector<Sample>& samples,
                                            size_t most);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_HYPOTHESIS_H_
