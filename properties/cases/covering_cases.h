// SPDX-License-Identifier: Apache-2.0
// Few cases with combinations of settings that the cases of a plan did not
// have: pairs or triples.
#ifndef QKVET_PROPERTIES_CASES_COVERING_CASES_H_
#define QKVET_PROPERTIES_CASES_COVERING_CASES_H_

#include <optional>
#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// A case that was drawn to have settings together, and the settings that its
// calls really have.
struct MadeCase {
  PairCase one;
  std::vector<std::vector<SettingSet>> has;  // [kernel][call]
};

using Combination = std::vector<size_t>;  // of settings
// Ascending settings; a set of combinations of the same size has a bit for each
// place.
size_t place_of(const Combination& settings);

struct CoveringSearch {
  size_t together;        // settings of a combination
  uint32_t stream;        // draws are separate from those of plans
  int64_t draws_of_case;  // thinking takes time as well
  int most_laws;          // tried for one combination, the general one first
  uint32_t tries;         // draws under each of them
  int most_extensions;    // further settings that are tried for a case
  bool extends_anew;      // searches again for the most missing after each
  bool counts_kernels;    // one that two kernels lack counts twice
};

class CoveringCases {
 public:
  CoveringCases(const PairPlan& of, const CoveringSearch& how)
      : plan(of),
        search(how),
        laws(of.laws.rbegin(), of.laws.rend()),
        most_draws(how.draws_of_case * of.most_cases) {}

  // One draw of many, by `number`; nullopt if it is no valid case, or has lost
  // an option to its law.
  std::optional<MadeCase> make(const Law& law, const Combination& wanted,
                               uint32_t number);
  // Whether the law lets a case have these.
  static bool lets_have(const Law& law, const Combination& wanted);

  // Cases for those that are missing, in this order. `missing`: of each kernel.
  std::vector<PairCase> cover(const std::vector<Combination>& in_order,
                              std::vector<std::vector<bool>> missing);

  const PairPlan& plan;
  const CoveringSearch search;
  const std::vector<const Law*> laws;
  const int64_t most_draws;
  int64_t drawn = 0;

 private:
  bool is_missing(size_t place) const;
  int64_t missing_in(const SettingSet& settings) const;
  int64_t gain(const MadeCase& made) const;
  bool serves(const MadeCase& made, size_t place,
              const Combination& wanted) const;
  Combination extensions(const Combination& wanted) const;
  std::optional<MadeCase> first_of(const Combination& wanted);
  std::optional<MadeCase> widest(Combination wanted);
  bool takes(const Case& value);

  std::vector<std::vector<bool>> missing_;
  std::vector<PairCase> cases_;
  int64_t cost_ = 0;
  int too_dear_ = 0;
};

// Every kernel costs the same effort, so kernels with one declaration are
// treated as one. The plan has the first kernel of each kind, and kind_of the
// kind of each kernel. Nullopt for too many kinds: it would take longer than
// their plan.
std::optional<PairPlan> plan_of_kinds(const PairPlan& plan,
                                      std::vector<size_t>& kind_of);
// Cases for kinds, as cases for the kernels of these.
std::vector<PairCase> for_all(const std::vector<PairCase>& of_kinds,
                              const std::vector<size_t>& kind_of);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_COVERING_CASES_H_
