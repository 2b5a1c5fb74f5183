// SPDX-License-Identifier: Apache-2.0
// Predicates and sentences: the cases for which they hold, and their text in
// English and in the language of conditions.
#include <algorithm>
#include <bit>

#include "diagnosis/where/hypothesis.h"

namespace qkvet::diagnosis {
namespace {

using Relation = Atom::Relation;

// Numbers with more factors of two are more likely to be intended.
int twos(int64_t number) {
  return number <= 0 ? 0 : std::countr_zero(static_cast<uint64_t>(number));
}

std::string bound_text(const Term& term, const char* loose, const char* strict,
                       int64_t number, int64_t beside) {
  const bool is_strict = !term.left.empty() ? beside == 0 && number != 0
                                            : twos(beside) > twos(number);
  const int64_t shown = is_strict ? beside : number;
  const char* sign = is_strict ? strict : loose;
  if (!term.left.empty() && shown == 0) return term.left + sign + term.right;
  return term.name + sign + std::to_string(shown);
}

std::string equal_text(const Term& term, const char* sign, int64_t number) {
  if (term.kind == Term::Kind::kWord) {
    for (const ConditionWord& word : term.words)
      if (word.value == number)
        return term.name + sign + std::string(word.name);
  }
  if (!term.left.empty() && number == 0) return term.left + sign + term.right;
  return term.name + sign + std::to_string(number);
}

// "2 keys or more", but "1 key or more".
std::string with_number(std::string text, int64_t number) {
  const size_t at = text.find('#');
  if (number == 1 && text.compare(at + 1, 1, " ") == 0) {
    const size_t end = std::min(text.find(' ', at + 2), text.size());
    if (text[end - 1] == 's') text.erase(end - 1, 1);
  }
  return text.replace(at, 1, std::to_string(number));
}

std::string text_of(const Atom& atom, bool in_words);

// "(A or B)"
std::string compound_text(const Atom& atom, bool in_words) {
  const bool any = atom.relation == Relation::kAnyOf;
  const char* between =
      in_words ? (any ? " or " : " and ") : (any ? " || " : " && ");
  std::string out;
  for (const Atom& part : atom.parts)
    out += (out.empty() ? "(" : between) + text_of(part, in_words);
  return out + ")";
}

std::string text_of(const Atom& atom, bool in_words) {
  if (atom.is_compound()) return compound_text(atom, in_words);
  const Term& term = vocabulary()[atom.term];
  if (term.has_bounds_alone()) {
    // "No row sees 9 keys or more" is a bound of 8.
    const bool at_least = atom.relation == Relation::kAtLeast;
    const Term::Bound& bound = at_least ? term.at_least : term.at_most;
    return with_number(in_words ? bound.words : bound.formula,
                       at_least ? atom.number : atom.number + 1);
  }
  const bool is = atom.relation == Relation::kIs;
  switch (atom.relation) {
    case Relation::kIs:
    case Relation::kIsNot:
      if (term.kind != Term::Kind::kFlag)
        return equal_text(
            term, is ? (in_words ? " = " : " == ") : " != ", atom.number);
      if (in_words) return (atom.number == 1) == is ? term.yes : term.no;
      return ((atom.number == 1) == is ? "" : "!") + term.name;
    case Relation::kAtLeast:
      return bound_text(term, " >= ", " > ", atom.number, atom.number - 1);
    case Relation::kAtMost:
      return bound_text(term, " <= ", " < ", atom.number, atom.number + 1);
    case Relation::kRemains:
    case Relation::kRemainsNot:
      return term.name + " % " + std::to_string(atom.modulus) +
             (atom.relation == Relation::kRemains ? " == " : " != ") +
             std::to_string(atom.number);
    case Relation::kAnyOf:
    case Relation::kAllOf:
      break;  // above
  }
  return "";
}

}  // namespace

bool Atom::holds(const TermValues& values) const {
  const auto part_holds = [&](const Atom& part) { return part.holds(values); };
  if (relation == Relation::kAnyOf)
    return std::any_of(parts.begin(), parts.end(), part_holds);
  if (relation == Relation::kAllOf)
    return std::all_of(parts.begin(), parts.end(), part_holds);
  return holds_for(values[term]);
}

bool Atom::holds_for(int64_t value) const {
  switch (relation) {
    case Relation::kIs:
      return value == number;
    case Relation::kIsNot:
      return value != number;
    case Relation::kAtLeast:
      return value >= number;
    case Relation::kAtMost:
      return value <= number;
    case Relation::kRemains:
      return value % modulus == number;
    case Relation::kRemainsNot:
      return value % modulus != number;
    case Relation::kAnyOf:
    case Relation::kAllOf:
      break;  // of several terms
  }
  return false;
}

Atom Atom::opposite() const {
  Atom out = *this;
  switch (relation) {
    case Relation::kIs:
      out.relation = Relation::kIsNot;
      break;
    case Relation::kIsNot:
      out.relation = Relation::kIs;
      break;
    case Relation::kAtLeast:
      out.relation = Relation::kAtMost;
      --out.number;
      break;
    case Relation::kAtMost:
      out.relation = Relation::kAtLeast;
      ++out.number;
      break;
    case Relation::kRemains:
      out.relation = Relation::kRemainsNot;
      break;
    case Relation::kRemainsNot:
      out.relation = Relation::kRemains;
      break;
    case Relation::kAnyOf:
    case Relation::kAllOf:
      out.relation =
          relation == Relation::kAnyOf ? Relation::kAllOf : Relation::kAnyOf;
      for (Atom& part : out.parts) part = part.opposite();
      break;
  }
  return out;
}

bool Hypothesis::predicts_failure(const TermValues& values) const {
  const bool all =
      std::all_of(atoms.begin(), atoms.end(),
                  [&](const Atom& atom) { return atom.holds(values); });
  return all != unless;
}

std::string Hypothesis::sentence() const {
  if (is_always()) return "every case";
  std::string out;
  for (const Atom& atom : atoms)
    out += (out.empty() ? ""
            : unless    ? " or "
                        : " and ") +
           text_of(unless ? atom.opposite() : atom, /*in_words=*/true);
  return out;
}

std::string Hypothesis::formula() const {
  std::string out;
  for (const Atom& atom : atoms)
    out += (out.empty() ? ""
            : unless    ? " || "
                        : " && ") +
           text_of(unless ? atom.opposite() : atom, /*in_words=*/false);
  return out;
}

}  // namespace qkvet::diagnosis
