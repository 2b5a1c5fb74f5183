// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/hypothesis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace qkvet::diagnosis {
namespace {

using Relation = Atom::Relation;
using Bits = std::vector<uint64_t>;

// The cost of one wrong sample in atoms: two of them justify a further
// predicate, one may be chance.
constexpr double kCostOfWrong = 0.7;
constexpr double kCostOfUnless = 0.4;
constexpr size_t kMostAtoms = 4;
// Conjunctions that are extended.
constexpr size_t kBeam = 48;
// Conjunctions that are extended by "A or B", and the atoms it is made of.
constexpr size_t kMostParents = 12;
constexpr size_t kMostParts = 60;
constexpr double kCostOfOr = 0.9;
// Atoms that hold in the same samples, and that are all kept.
constexpr size_t kMostAlike = 10;
// Usual tiles, lanes and pages.
constexpr int64_t kModuli[] = {2, 4, 8, 16, 32, 64, 128, 256, 3, 5, 6, 7};

void set(Bits& bits, size_t n) { bits[n / 64] |= uint64_t{1} << n % 64; }

// std::popcount() is a function call if the target may lack the instruction.
int ones(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555;
  bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return static_cast<int>(bits * 0x0101010101010101 >> 56);
}

// All atoms that differ in some samples, by the samples in which they hold. A
// term has fewer values than there are samples.
class AtomMaker {
 public:
  explicit AtomMaker(const std::vector<Sample>& samples)
      : samples_(samples), none_((samples.size() + 63) / 64) {
    for (size_t term = 0; term < vocabulary().size(); ++term) add_term(term);
  }
  std::map<Bits, std::vector<Atom>> classes;

 private:
  void add(size_t term, Relation relation, int64_t number, double cost,
           int64_t modulus = 0) {
    cost += vocabulary()[term].cost;
    const Atom atom{term, relation, number, modulus, cost};
    Bits holds = none_;
    for (const auto& [value, of] : samples_of_) {
      if (!atom.holds_for(value)) continue;
      for (size_t i = 0; i < holds.size(); ++i) holds[i] |= of[i];
    }
    classes[std::move(holds)].push_back(atom);
  }

  void add_term(size_t term) {
    samples_of_.clear();
    for (size_t n = 0; n < samples_.size(); ++n)
      set(samples_of_.try_emplace(samples_[n].values[term], none_)
              .first->second,
          n);
    if (samples_of_.size() < 2) return;
    std::set<int64_t> seen;
    for (const auto& [value, of] : samples_of_) seen.insert(value);
    switch (vocabulary()[term].kind) {
      case Term::Kind::kFlag:
        add(term, Relation::kIs, 1, 1);
        add(term, Relation::kIs, 0, 1.05);
        break;
      case Term::Kind::kWord:
        for (const int64_t value : seen) {
          add(term, Relation::kIs, value, 1.2);
          add(term, Relation::kIsNot, value, 1.3);
        }
        break;
      case Term::Kind::kNumber:
        add_bounds(term, seen);
        if (vocabulary()[term].left.empty() &&
            !vocabulary()[term].has_bounds_alone())
          add_remainders(term, seen);
        break;
    }
  }

  // A bound may be anywhere between two observed values.
  void add_bounds(size_t term, const std::set<int64_t>& seen) {
    const bool alone = vocabulary()[term].has_bounds_alone();
    for (auto at = seen.begin(); at != seen.end(); ++at) {
      const auto next = std::next(at);
      if (!alone) add_equals(term, *at);
      if (next == seen.end()) break;
      add(term, Relation::kAtLeast, *next, 1.3);
      add(term, Relation::kAtMost, *at, 1.35);
      if (*at + 1 == *next) continue;
      add(term, Relation::kAtLeast, *at + 1, 1.32);
      add(term, Relation::kAtMost, *next - 1, 1.37);
    }
  }
  void add_equals(size_t term, int64_t number) {
    const bool small = number == 0 || number == 1;
    const double exactly = number == 1 ? 1.33 : number == 0 ? 1.4 : 2.4;
    add(term, Relation::kIs, number, exactly);
    add(term, Relation::kIsNot, number, exactly + (small ? 0.1 : 1));
  }

  void add_remainders(size_t term, const std::set<int64_t>& seen) {
    for (const int64_t modulus : kModuli) {
      std::set<int64_t> left;
      for (const int64_t value : seen) left.insert(value % modulus);
      if (left.size() < 2 || *seen.rbegin() <= modulus) continue;
      const double odd = modulus % 2 == 0 && modulus != 6 ? 0 : 0.8;
      for (const int64_t one : left) {
        const double cost = 1.6 + odd +
                            (one == 0       ? 0
                             : modulus == 2 ? 0.8
                                            : 1.8);
        add(term, Relation::kRemains, one, cost, modulus);
        if (modulus > 2)
          add(term, Relation::kRemainsNot, one, cost - 0.02, modulus);
      }
    }
  }

  const std::vector<Sample>& samples_;
  const Bits none_;
  std::map<int64_t, Bits> samples_of_;  // by the value of the term
};

// Atoms that hold in the same samples, the simplest first.
struct Alike {
  Bits holds;
  std::vector<Atom> atoms;
};

struct Conjunction {
  std::vector<size_t> alike;  // numbers of Alike, rising
  Bits holds;
  int lost = 0, wrong = 0;  // failing samples outside; passing ones inside
  double cost = 0;
};

std::vector<Alike> alike_of(const std::vector<Sample>& samples) {
  AtomMaker made(samples);
  std::vector<Alike> out;
  for (auto& [holds, same] : made.classes) {
    std::stable_sort(
        same.begin(), same.end(),
        [](const Atom& a, const Atom& b) { return a.cost < b.cost; });
    if (same.size() > kMostAlike) same.resize(kMostAlike);
    out.push_back({holds, std::move(same)});
  }
  return out;
}

// Fits conjunctions to samples; for "unless", verdicts are inverted.
class Fit {
 public:
  Fit(const std::vector<Sample>& samples, const std::vector<Alike>& alike,
      bool unless)
      : unless_(unless),
        failed_((samples.size() + 63) / 64),
        all_(failed_),
        alike_(alike) {
    for (size_t n = 0; n < samples.size(); ++n) {
      set(all_, n);
      if (samples[n].failed != unless) set(failed_, n);
    }
  }

  void add_to(std::vector<Hypothesis>& out) {
    std::vector<Conjunction> beam = {Conjunction{{}, all_}};
    measure(beam[0]);
    std::vector<Conjunction> found;
    if (!unless_) found = beam;
    for (size_t size = 1; size <= kMostAtoms && is_worth_more(found); ++size) {
      beam = grown(beam);
      if (size > 1 || !unless_)
        found.insert(found.end(), beam.begin(), beam.end());
    }
    std::stable_sort(
        found.begin(), found.end(),
        [&](const auto& a, const auto& b) { return score(a) < score(b); });
    if (found.size() > kBeam) found.resize(kBeam);
    if (is_worth_more(found))
      for (const Either& one : with_either(found)) add_either(one, out);
    for (const Conjunction& one : found) add_spelled(one, out);
  }

 private:
  // A conjunction and one more condition: either of two atoms.
  struct Either {
    const Conjunction* parent = nullptr;
    size_t first = 0, second = 0;
    int wrong = 0;
    double score = 0;
  };

  // Number of samples in both sets.
  static int count(const Bits& a, const Bits& b) {
    int sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += ones(a[i] & b[i]);
    return sum;
  }

  // The best of them that beat the conjunctions alone. Both atoms must keep
  // some failing samples, and exclude most of the passing ones.
  std::vector<Either> with_either(const std::vector<Conjunction>& found) const {
    std::vector<Either> out;
    if (found.empty()) return out;
    std::set<Bits> known;
    double least = score(found[0]);
    for (const Conjunction& parent : found) {
      if (known.size() == kMostParents) break;
      // A disjunction for every case is a sentence of another kind.
      if (parent.alike.empty() || parent.alike.size() >= kMostAtoms ||
          parent.wrong == 0 || !known.insert(parent.holds).second)
        continue;
      Bits failing = parent.holds, passing = parent.holds;
      for (size_t i = 0; i < all_.size(); ++i) {
        failing[i] &= failed_[i];
        passing[i] &= all_[i] & ~failed_[i];
      }
      for (const auto& [first, second] : pairs_of(failing, passing)) {
        Bits holds = alike_[first].holds;
        for (size_t i = 0; i < holds.size(); ++i)
          holds[i] |= alike_[second].holds[i];
        Either one{&parent, first, second};
        one.wrong = parent.lost + count(failing, all_) - count(failing, holds) +
                    count(passing, holds);
        one.score = kCostOfWrong * one.wrong + parent.cost + kCostOfOr +
                    alike_[first].atoms[0].cost + alike_[second].atoms[0].cost +
                    (unless_ ? kCostOfUnless : 0);
        if (one.score >= least) continue;
        out.push_back(one);
      }
    }
    std::stable_sort(
        out.begin(), out.end(),
        [](const Either& a, const Either& b) { return a.score < b.score; });
    if (out.size() > kBeam) out.resize(kBeam);
    return out;
  }

  std::vector<std::pair<size_t, size_t>> pairs_of(const Bits& failing,
                                                  const Bits& passing) const {
    struct Part {
      size_t alike;
      double worth;
    };
    std::vector<Part> parts;
    for (size_t n = 0; n < alike_.size(); ++n) {
      const int kept = count(failing, alike_[n].holds);
      const int wrong = count(passing, alike_[n].holds);
      if (kept > 2 * wrong)
        parts.push_back({n, kept - 3 * wrong - alike_[n].atoms[0].cost});
    }
    std::stable_sort(
        parts.begin(), parts.end(),
        [](const Part& a, const Part& b) { return a.worth > b.worth; });
    if (parts.size() > kMostParts) parts.resize(kMostParts);
    std::vector<std::pair<size_t, size_t>> out;
    for (size_t a = 0; a < parts.size(); ++a)
      for (size_t b = a + 1; b < parts.size(); ++b)
        out.push_back({parts[a].alike, parts[b].alike});
    return out;
  }

  void add_either(const Either& one, std::vector<Hypothesis>& out) const {
    Hypothesis all;
    all.unless = unless_;
    all.wrong = one.wrong;
    all.score = one.score;
    for (const size_t n : one.parent->alike)
      all.atoms.push_back(alike_[n].atoms[0]);
    Atom either;
    either.relation = Relation::kAnyOf;
    either.parts = {alike_[one.first].atoms[0], alike_[one.second].atoms[0]};
    either.cost = kCostOfOr + either.parts[0].cost + either.parts[1].cost;
    all.atoms.push_back(either);
    out.push_back(std::move(all));
  }

  void measure(Conjunction& one) const {
    one.lost = one.wrong = 0;
    for (size_t i = 0; i < all_.size(); ++i) {
      one.lost += ones(failed_[i] & ~one.holds[i]);
      one.wrong += ones(one.holds[i] & all_[i] & ~failed_[i]);
    }
  }

  double score(const Conjunction& one) const {
    return kCostOfWrong * (one.lost + one.wrong) + one.cost +
           (unless_ ? kCostOfUnless : 0);
  }

  // A further atom costs more than one wrong sample.
  static bool is_worth_more(const std::vector<Conjunction>& found) {
    return std::none_of(found.begin(), found.end(), [](const auto& one) {
      return one.lost + one.wrong <= 1;
    });
  }

  // A lost sample stays lost, but a wrong one may still become right.
  double promise(const Conjunction& one) const {
    return kCostOfWrong * (3 * one.lost + one.wrong) + one.cost;
  }

  struct Step {
    size_t parent, alike;
    double promise;
    bool operator<(const Step& other) const {
      return std::tie(promise, parent, alike) <
             std::tie(other.promise, other.parent, other.alike);
    }
  };

  std::vector<Conjunction> grown(const std::vector<Conjunction>& beam) const {
    std::vector<Conjunction> out;
    std::set<std::vector<size_t>> known;
    for (const Step& step : best_steps(beam)) {
      if (out.size() == kBeam) break;
      const Conjunction& parent = beam[step.parent];
      Conjunction next = parent;
      next.alike.push_back(step.alike);
      std::sort(next.alike.begin(), next.alike.end());
      if (!known.insert(next.alike).second) continue;
      for (size_t i = 0; i < all_.size(); ++i)
        next.holds[i] &= alike_[step.alike].holds[i];
      next.cost += alike_[step.alike].atoms[0].cost;
      measure(next);
      out.push_back(std::move(next));
    }
    return out;
  }

  // Enough for a beam: the same conjunction is reached with each of its atoms
  // last.
  std::vector<Step> best_steps(const std::vector<Conjunction>& beam) const {
    const size_t enough = kBeam * kMostAtoms;
    std::vector<Step> steps;
    double least = std::numeric_limits<double>::infinity();
    const auto keep_best = [&] {
      if (steps.size() <= enough) return;
      std::nth_element(steps.begin(), steps.begin() + enough, steps.end());
      steps.resize(enough + 1);
      least = steps[enough].promise;
    };
    for (size_t parent = 0; parent < beam.size(); ++parent) {
      Bits failing = beam[parent].holds, passing = beam[parent].holds;
      for (size_t i = 0; i < all_.size(); ++i) {
        failing[i] &= failed_[i];
        passing[i] &= all_[i] & ~failed_[i];
      }
      for (size_t n = 0; n < alike_.size(); ++n) {
        const auto promise =
            promise_with(beam[parent], failing, passing, n, least);
        if (promise) steps.push_back({parent, n, *promise});
        if (steps.size() > 4 * enough) keep_best();
      }
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }

  // The promise of a conjunction with one atom more; nullopt if that makes no
  // sample right, or is worse than `least`. `failing` and `passing` are the
  // samples in which `one` holds.
  std::optional<double> promise_with(const Conjunction& one,
                                     const Bits& failing, const Bits& passing,
                                     size_t alike, double least) const {
    Conjunction next;
    next.cost = one.cost + alike_[alike].atoms[0].cost;
    next.lost = one.lost;
    if (promise(next) > least) return std::nullopt;
    const Bits& holds = alike_[alike].holds;
    for (size_t i = 0; i < all_.size(); ++i) {
      const uint64_t gone = failing[i] & ~holds[i];
      if (gone == 0) continue;
      next.lost += ones(gone);
      if (promise(next) > least) return std::nullopt;
    }
    for (size_t i = 0; i < all_.size(); ++i)
      next.wrong += ones(passing[i] & holds[i]);
    const double promised = promise(next);
    if (next.wrong >= one.wrong || promised > least) return std::nullopt;
    return promised;
  }

  // Adds the conjunction, and each variant with one atom replaced by another
  // that holds in the same samples.
  void add_spelled(const Conjunction& one, std::vector<Hypothesis>& out) const {
    Hypothesis base;
    base.unless = unless_;
    base.wrong = one.lost + one.wrong;
    base.score = score(one);
    for (const size_t n : one.alike) base.atoms.push_back(alike_[n].atoms[0]);
    out.push_back(base);
    for (size_t at = 0; at < one.alike.size(); ++at) {
      const std::vector<Atom>& same = alike_[one.alike[at]].atoms;
      for (size_t i = 1; i < same.size(); ++i) {
        Hypothesis other = base;
        other.atoms[at] = same[i];
        other.score += same[i].cost - same[0].cost;
        out.push_back(std::move(other));
      }
    }
  }

  bool unless_;
  Bits failed_, all_;
  const std::vector<Alike>& alike_;
};

}  // namespace

std::vector<Hypothesis> simplest_hypotheses(const std::vector<Sample>& samples,
                                            size_t most) {
  const std::vector<Alike> alike = alike_of(samples);
  std::vector<Hypothesis> all;
  for (const bool unless : {false, true})
    Fit(samples, alike, unless).add_to(all);
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) {
                     return a.score < b.score;
                   });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace qkvet::diagnosis
