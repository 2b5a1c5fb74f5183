// SPDX-License-Identifier: Apache-2.0
// The terms of sentences about where a kernel fails: properties of a case. They
// are the names of the language of conditions (properties/conditions), and some
// that are made of them.
#ifndef QKVET_DIAGNOSIS_WHERE_VOCABULARY_H_
#define QKVET_DIAGNOSIS_WHERE_VOCABULARY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/conditions/condition_names.h"

namespace qkvet::diagnosis {

struct Term {
  enum class Kind : uint8_t { kFlag, kNumber, kWord };
  std::string name;  // in the language of conditions: "Tk", "rows(hidden > 0)"
  Kind kind = Kind::kFlag;
  std::function<int64_t(const Situation&)> value;
  std::span<const ConditionWord> words;  // of kWord
  std::string yes, no;  // of kFlag: "a mask is given", "no mask is given"
  double cost = 0;      // how far-fetched it is
  // For a difference "Tk - Tq": the two numbers, for comparisons with 0.
  std::string left, right;
  // For a number with bounds only, "the most keys that a row sees": the bound
  // in the language of conditions and in English, with # for the number;
  // at_most has the next one, "no row sees 9 keys or more".
  struct Bound {
    std::string formula, words;
  };
  Bound at_least, at_most;
  bool has_bounds_alone() const { return !at_least.formula.empty(); }
};

// In the order in which they are tried.
const std::vector<Term>& vocabulary();

// Whether it is about the size of scores.
bool is_of_scores(const Term& term);

// The value of each term in the case. A flag is also 1 if it is set in one of
// the calls that a law makes.
using TermValues = std::vector<int64_t>;
TermValues term_values(const Case& value, const Law* law = nullptr,
                       const KernelInfo* kernel = nullptr);
// The values of these terms; all others are 0. A term about rows takes time in
// a case of thousands of rows.
TermValues term_values_of(const std::vector<size_t>& wanted, const Case& value,
                          const Law* law, const KernelInfo* kernel);

// The case with an extent, or a number that follows from extents, changed to
// `to`, and with its dependent fields; nullopt if this term cannot be set. It
// must still be constrained.
std::optional<Case> with_term(const Case& value, const Term& term, int64_t to);
// The same, and products of members and heads by another number of members.
std::optional<Case> with_term_or_product(const Case& value, const Term& term,
                                         int64_t to);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_VOCABULARY_H_
