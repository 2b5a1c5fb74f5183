// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_cases.h"

#include <algorithm>
#include <climits>
#include <tuple>

#include "core/base/philox.h"
#include "properties/cases/covering_cases.h"

namespace qkvet::properties {
namespace {

// Draws for one pair under its first law, and under each other.
constexpr uint32_t kFirstTries = 8;
constexpr uint32_t kTries = 2;

// Half of the draws for pairs find out which are possible.
constexpr CoveringSearch kForPairs = {.together = 2,
                                      .stream = 0x70616972,
                                      .draws_of_case = 40,
                                      .most_laws = INT_MAX,
                                      .tries = kFirstTries,
                                      .most_extensions = 16,
                                      .extends_anew = true,
                                      .counts_kernels = true};
// Many triples are of no case.
constexpr CoveringSearch kForTriples = {.together = 3,
                                        .stream = 0x74726970,
                                        .draws_of_case = 24,
                                        .most_laws = 3,
                                        .tries = 1,
                                        .most_extensions = 8,
                                        .extends_anew = false,
                                        .counts_kernels = false};

// Combinations that only have options come first.
int64_t others_in(const Combination& settings) {
  return std::count_if(settings.begin(), settings.end(), [](size_t one) {
    return setting_rows()[one].kind != SettingKind::kOption;
  });
}

class PairBuilder {
 public:
  explicit PairBuilder(const PairPlan& plan)
      : plan_(plan), covering_(plan, kForPairs) {
    found_.can = plan.met;  // at the least
  }

  PairCases run() {
    list_settings();
    for (const Combination& pair : pairs_) find(pair);
    std::vector<std::vector<bool>> missing(
        found_.can.size(), std::vector<bool>(place_of({0, kMostSettings})));
    for (size_t k = 0; k < missing.size(); ++k)
      for (const Combination& pair : pairs_)
        missing[k][place_of(pair)] =
            found_.can[k][pair[0]][pair[1]] && !plan_.met[k][pair[0]][pair[1]];
    found_.cases = covering_.cover(pairs_, std::move(missing));
    return std::move(found_);
  }

 private:
  bool may_find() const { return covering_.drawn < covering_.most_draws / 2; }

  bool declares(size_t kernel, size_t setting) const {
    const SettingRow& row = setting_rows()[setting];
    return row.kind != SettingKind::kOption ||
           plan_.kernels[kernel]->has_option(row.option);
  }

  void list_settings() {
    Combination settings;
    for (size_t n = 0; n < setting_rows().size(); ++n) {
      if (!may_have(plan_.scope, setting_rows()[n])) continue;
      find({n});
      if (is_had(n)) settings.push_back(n);
    }
    for (size_t a = 0; a < settings.size(); ++a)
      for (size_t b = a + 1; b < settings.size(); ++b)
        if (may_meet_by_kind(settings[a], settings[b]))
          pairs_.push_back({settings[a], settings[b]});
    std::stable_sort(pairs_.begin(), pairs_.end(),
                     [](const Combination& one, const Combination& two) {
                       return others_in(one) < others_in(two);
                     });
  }

  bool is_had(size_t setting) const {
    return std::any_of(
        found_.can.begin(), found_.can.end(),
        [setting](const PairTable& can) { return can[setting][setting]; });
  }

  // Whether some kernel may have it and no case with it is known.
  bool is_open(const Combination& wanted) const {
    const size_t a = wanted.front(), b = wanted.back();
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const PairTable& can = found_.can[k];
      const bool apart_alone = a != b && (!can[a][a] || !can[b][b]);
      if (!can[a][b] && declares(k, a) && declares(k, b) && !apart_alone)
        return true;
    }
    return false;
  }

  // Every pair that its calls have can be met.
  void note(const MadeCase& made) {
    for (size_t k = 0; k < made.has.size(); ++k)
      for (const SettingSet& call : made.has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) found_.can[k][n] |= call;
  }

  // Searches for cases until every kernel that may have the pair, or the
  // setting, has one.
  void find(const Combination& wanted) {
    bool first = true;
    for (const Law* law : covering_.laws) {
      if (!is_open(wanted)) return;
      if (!CoveringCases::lets_have(*law, wanted)) continue;
      const uint32_t tries = first ? kFirstTries : kTries;
      first = false;
      for (uint32_t n = 0; n < tries && may_find() && is_open(wanted); ++n)
        if (const auto made = covering_.make(*law, wanted, n)) note(*made);
    }
  }

  const PairPlan& plan_;
  CoveringCases covering_;
  std::vector<Combination> pairs_;
  PairCases found_;
};

// Triples that have not met, with pairs that all have, in one call or in three.
TripleSet missing_of(const PairTable& pairs, const TripleSet& met) {
  const size_t settings = setting_rows().size();
  TripleSet out(place_of_triple(0, 0, kMostSettings));
  const auto meet = [&pairs](size_t a, size_t b) {
    return pairs[a][b] && may_meet_by_kind(a, b);
  };
  for (size_t c = 2; c < settings; ++c)
    for (size_t b = 1; b < c; ++b) {
      if (!meet(b, c)) continue;
      for (size_t a = 0; a < b; ++a) {
        const size_t place = place_of_triple(a, b, c);
        out[place] = meet(a, b) && meet(a, c) && (met.empty() || !met[place]);
      }
    }
  return out;
}

// The number of a triple in draws.
uint32_t number_of(Combination triple) {
  for (size_t& one : triple) one = number_in_draws(one);
  std::sort(triple.begin(), triple.end());
  return static_cast<uint32_t>(place_of(triple));
}

// Triples of options first, then in a fixed order among those with as many
// options.
std::vector<Combination> in_order(const std::vector<TripleSet>& missing,
                                  uint64_t seed) {
  constexpr uint32_t kStream = 0x6f726472;
  std::vector<std::tuple<int64_t, uint64_t, size_t, Combination>> keys;
  for (size_t c = 2; c < setting_rows().size(); ++c)
    for (size_t b = 1; b < c; ++b)
      for (size_t a = 0; a < b; ++a) {
        Combination one = {a, b, c};
        const size_t place = place_of_triple(a, b, c);
        if (std::none_of(missing.begin(), missing.end(),
                         [place](const TripleSet& of) { return of[place]; }))
          continue;
        const uint64_t order = philox_u64(seed, kStream, number_of(one), 0);
        keys.emplace_back(others_in(one), order, keys.size(), std::move(one));
      }
  std::sort(keys.begin(), keys.end());
  std::vector<Combination> out;
  for (auto& key : keys) out.push_back(std::move(std::get<3>(key)));
  return out;
}

}  // namespace

int64_t cost_of(const Case& value) {
  constexpr int64_t kBeside = int64_t{1} << 15;
  return kBeside + work_of(value.shape);
}

// Kernels with one declaration are treated as one, which lacks every pair that
// any of them lacks.
PairCases cases_for_pairs(const PairPlan& plan) {
  std::vector<size_t> kind_of;
  std::optional<PairPlan> kinds = plan_of_kinds(plan, kind_of);
  if (!kinds) return {};
  for (size_t k = 0; k < kind_of.size(); ++k) {
    if (kind_of[k] == kinds->met.size()) {
      kinds->met.push_back(plan.met[k]);
      continue;
    }
    for (size_t n = 0; n < kMostSettings; ++n)
      kinds->met[kind_of[k]][n] &= plan.met[k][n];
  }
  const PairCases of_kinds = PairBuilder(*kinds).run();
  PairCases out{for_all(of_kinds.cases, kind_of), {}};
  for (size_t k = 0; k < kind_of.size(); ++k) {
    out.can.push_back(of_kinds.can[kind_of[k]]);
    for (size_t n = 0; n < kMostSettings; ++n) out.can[k][n] |= plan.met[k][n];
  }
  return out;
}

std::vector<PairCase> cases_for_triples(const PairPlan& plan,
                                        const std::vector<TripleSet>& met) {
  std::vector<size_t> kind_of;
  const std::optional<PairPlan> kinds = plan_of_kinds(plan, kind_of);
  if (plan.most_cases <= 0 || !kinds) return {};
  std::vector<TripleSet> missing;
  for (size_t k = 0; k < kind_of.size(); ++k) {
    const TripleSet own = missing_of(plan.met[k], met[k]);
    missing.resize(std::max(missing.size(), kind_of[k] + 1),
                   TripleSet(own.size()));
    TripleSet& of_kind = missing[kind_of[k]];
    for (size_t n = 0; n < own.size(); ++n)
      if (own[n]) of_kind[n] = true;
  }
  const auto order = in_order(missing, plan.seed);
  return for_all(
      CoveringCases(*kinds, kForTriples).cover(order, std::move(missing)),
      kind_of);
}

}  // namespace qkvet::properties
