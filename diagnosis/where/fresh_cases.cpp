// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/fresh_cases.h"

#include <algorithm>
#include <array>
#include <optional>

namespace qkvet::diagnosis {
namespace {

constexpr int kMostDraws = 1200;

// Number of atoms that do not hold.
int missing(const Hypothesis& hypothesis, const TermValues& values) {
  return static_cast<int>(
      std::count_if(hypothesis.atoms.begin(), hypothesis.atoms.end(),
                    [&](const Atom& atom) { return !atom.holds(values); }));
}

// A value of the term for which the atom holds or not: `step` from its edge.
int64_t beyond(const Atom& atom, bool holds, int64_t step) {
  using Relation = Atom::Relation;
  switch (atom.relation) {
    case Relation::kAtLeast:
      return holds ? atom.number + step : atom.number - 1 - step;
    case Relation::kAtMost:
      return holds ? atom.number - step : atom.number + 1 + step;
    case Relation::kRemains:
      return atom.number + (step + 1) * atom.modulus + (holds ? 0 : 1);
    case Relation::kRemainsNot:
      return atom.number + (step + 1) * atom.modulus + (holds ? 1 : 0);
    case Relation::kIs:
      return holds ? atom.number : atom.number + 1 + step;
    case Relation::kIsNot:
      return holds ? atom.number + 1 + step : atom.number;
    case Relation::kAnyOf:
    case Relation::kAllOf:
      break;  // it has no one edge
  }
  return 0;
}

void add_terms_of(const std::vector<Atom>& atoms, std::vector<size_t>& terms) {
  for (const Atom& atom : atoms) {
    if (!atom.is_compound()) terms.push_back(atom.term);
    add_terms_of(atom.parts, terms);
  }
}

class Drawer {
 public:
  Drawer(const Hypothesis& hypothesis, const Setting& setting,
         const std::vector<Case>& failing, const std::function<bool()>& is_over)
      : hypothesis_(hypothesis),
        setting_(setting),
        failing_(failing),
        is_over_(is_over) {
    add_terms_of(hypothesis.atoms, terms_);
  }

  std::vector<Case> draw(uint64_t seed, int count) {
    const int half = hypothesis_.is_always() ? count : count / 2;
    const int others = count - half;
    for (int n = 1; n <= kMostDraws && !is_full(half, others) && !is_over_();
         ++n) {
      const Case planned = setting_.planned(seed, n);
      if (!setting_.allows(planned)) continue;
      const TermValues values = values_of(planned);
      take(planned, values, half, others);
      // Half of the moved cases are at an edge, where a number that is off by
      // one would show.
      constexpr int64_t kSteps[] = {0, 1, 0, 3};
      const int64_t step = kSteps[n % 4];
      if (at_edge_ < count / 6) put_at_edge(planned, half, others);
      // Cases that the plan rarely draws are made from planned ones.
      if (n > kMostDraws / 8 && static_cast<int>(fails_.size()) < half)
        take_moved(with_other_options(planned, n), true, step, half, others);
      if (static_cast<int>(near_.size()) < others / 2)
        take_moved(n % 2 == 0 || failing_.empty()
                       ? planned
                       : with_other_options(planned, n),
                   false, step, half, others);
    }
    std::vector<Case> all = fails_;
    all.insert(all.end(), near_.begin(), near_.end());
    all.insert(
        all.end(), passes_.begin(),
        passes_.begin() + std::min<ptrdiff_t>(std::ssize(passes_),
                                              others - std::ssize(near_)));
    return all;
  }

  // Cases that break only this atom.
  std::vector<Case> draw_lacking(size_t atom, uint64_t seed, int count) {
    for (int n = 1;
         n <= kMostDraws / 4 && std::ssize(lacking_) < count && !is_over_();
         ++n) {
      const Case planned = setting_.planned(seed, n);
      for (const Case& one : {planned, with_other_options(planned, n)}) {
        if (!setting_.allows(one)) continue;
        keep_lacking(one, atom, count);
        constexpr int64_t kSteps[] = {0, 1, 0, 3};
        turn_ = static_cast<int>(atom);
        if (const auto moved = moved_to(one, false, kSteps[n % 4]))
          keep_lacking(*moved, atom, count);
      }
    }
    return lacking_;
  }

 private:
  TermValues values_of(const Case& value) const {
    return setting_.values_of(terms_, value);
  }

  void keep_lacking(const Case& value, size_t atom, int count) {
    const TermValues values = values_of(value);
    if (std::ssize(lacking_) < count && missing(hypothesis_, values) == 1 &&
        !hypothesis_.atoms[atom].holds(values))
      lacking_.push_back(value);
  }

  bool is_full(int half, int others) const {
    return std::ssize(fails_) >= half &&
           std::ssize(near_) + std::ssize(passes_) >= others &&
           std::ssize(near_) >= others / 2;
  }

  // A failing case's options, with the extents of this one.
  Case with_other_options(const Case& planned, int n) const {
    if (failing_.empty()) return planned;
    Case out = with_extents_of(
        failing_[static_cast<size_t>(n) % failing_.size()], planned);
    out.seed = planned.seed;
    return setting_.dressed(out);
  }

  void take(const Case& value, const TermValues& values, int half, int others) {
    if (hypothesis_.predicts_failure(values)) {
      if (std::ssize(fails_) < half) fails_.push_back(value);
      return;
    }
    const bool near = hypothesis_.unless || missing(hypothesis_, values) == 1;
    std::vector<Case>& to =
        near && std::ssize(near_) < others / 2 ? near_ : passes_;
    if (std::ssize(to) < others) to.push_back(value);
  }

  // A variant with all atoms made true, or one of them made false.
  void take_moved(const Case& value, bool all, int64_t step, int half,
                  int others) {
    const auto moved = moved_to(value, all, step);
    if (moved) take(*moved, values_of(*moved), half, others);
  }

  std::optional<Case> moved_to(Case value, bool all, int64_t step) {
    const size_t size = hypothesis_.atoms.size();
    if (size == 0) return std::nullopt;
    const size_t broken = all ? size : static_cast<size_t>(turn_++) % size;
    for (size_t i = 0; i < size; ++i) {
      const Atom& atom = hypothesis_.atoms[i];
      const bool wanted = i != broken;
      const int64_t now = values_of(value)[atom.term];
      if (atom.holds(values_of(value)) == wanted) continue;
      if (atom.is_compound()) return std::nullopt;
      if (vocabulary()[atom.term].kind != Term::Kind::kNumber)
        return std::nullopt;
      const auto moved = with_term_or_product(value, vocabulary()[atom.term],
                                              beyond(atom, wanted, step));
      if (!moved || !invalid_reason(*moved).empty()) return std::nullopt;
      value = setting_.dressed(*moved);
      if (values_of(value)[atom.term] == now) return std::nullopt;
    }
    if (!setting_.allows(value) ||
        missing(hypothesis_, values_of(value)) != (all ? 0 : 1))
      return std::nullopt;
    return value;
  }

  // All atoms hold, one of them only just.
  void put_at_edge(const Case& planned, int half, int others) {
    const size_t size = hypothesis_.atoms.size();
    if (size == 0) return;
    const Atom& edge = hypothesis_.atoms[static_cast<size_t>(turn_++) % size];
    const Term& term = vocabulary()[edge.term];
    const bool is_bound = edge.relation == Atom::Relation::kAtLeast ||
                          edge.relation == Atom::Relation::kAtMost;
    if (!is_bound || term.kind != Term::Kind::kNumber) return;
    const auto moved = with_term_or_product(planned, term, edge.number);
    if (!moved || !invalid_reason(*moved).empty()) return;
    const Case value = setting_.dressed(*moved);
    if (!setting_.allows(value)) return;
    const TermValues values = values_of(value);
    if (values[edge.term] != edge.number || missing(hypothesis_, values) > 0)
      return;
    const auto had = fails_.size() + passes_.size() + near_.size();
    take(value, values, half, others);
    at_edge_ += fails_.size() + passes_.size() + near_.size() > had;
  }

  const Hypothesis& hypothesis_;
  const Setting& setting_;
  const std::vector<Case>& failing_;
  const std::function<bool()>& is_over_;
  std::vector<size_t> terms_;  // of the hypothesis
  std::vector<Case> fails_, near_, passes_, lacking_;
  int at_edge_ = 0;
  int turn_ = 0;
};

}  // namespace

std::vector<Case> fresh_cases(const Hypothesis& hypothesis,
                              const Setting& setting,
                              const std::vector<Case>& failing, uint64_t seed,
                              int count, const std::function<bool()>& is_over) {
  return Drawer(hypothesis, setting, failing, is_over).draw(seed, count);
}

std::vector<Case> cases_lacking(const Hypothesis& hypothesis, size_t atom,
                                const Setting& setting,
                                const std::vector<Case>& failing, uint64_t seed,
                                int count,
                                const std::function<bool()>& is_over) {
  return Drawer(hypothesis, setting, failing, is_over)
      .draw_lacking(atom, seed, count);
}

}  // namespace qkvet::diagnosis
