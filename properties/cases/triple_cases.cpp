// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/triple_cases.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "core/base/philox.h"
#include "properties/cases/made_case.h"

namespace qkvet::properties {
namespace {

struct Triple {
  size_t a, b, c;  // ascending
  size_t place() const { return place_of_triple(a, b, c); }
  // What draws know it by.
  uint32_t number() const {
    std::array<size_t, 3> of = {number_in_draws(a), number_in_draws(b),
                                number_in_draws(c)};
    std::sort(of.begin(), of.end());
    return static_cast<uint32_t>(place_of_triple(of[0], of[1], of[2]));
  }
};

class TripleBuilder {
 public:
  // `missing` of each kernel: those whose pairs it has met.
  TripleBuilder(const PairPlan& plan, std::vector<TripleSet> missing)
      : plan_(plan),
        laws_(plan.laws.rbegin(), plan.laws.rend()),  // the general one first
        missing_(std::move(missing)) {}

  std::vector<PairCase> run() {
    for (const Triple& triple : in_order()) {
      if (std::ssize(cases_) >= plan_.most_cases || drawn_ >= most_draws() ||
          budget_.is_spent())
        break;
      if (is_missing(triple.place())) add_case(triple);
    }
    return std::move(cases_);
  }

 private:
  // Thinking takes time as well. Many triples are of no case.
  int64_t most_draws() const {
    constexpr int64_t kDrawsOfCase = 24;
    return kDrawsOfCase * plan_.most_cases;
  }

  bool is_missing(size_t place) const {
    return std::any_of(missing_.begin(), missing_.end(),
                       [place](const TripleSet& one) { return one[place]; });
  }

  // Three options first, and in some order among those of as many.
  std::vector<Triple> in_order() const {
    const std::vector<SettingRow>& rows = setting_rows();
    std::vector<std::tuple<int, uint64_t, size_t>> keys;
    std::vector<Triple> all;
    for (size_t c = 2; c < rows.size(); ++c)
      for (size_t b = 1; b < c; ++b)
        for (size_t a = 0; a < b; ++a) {
          const Triple one = {a, b, c};
          if (!is_missing(one.place())) continue;
          const int others = (rows[a].kind != SettingKind::kOption) +
                             (rows[b].kind != SettingKind::kOption) +
                             (rows[c].kind != SettingKind::kOption);
          keys.emplace_back(
              others, philox_u64(plan_.seed, kOrderStream, one.number(), 0),
              all.size());
          all.push_back(one);
        }
    std::sort(keys.begin(), keys.end());
    std::vector<Triple> out;
    for (const auto& [others, order, n] : keys) out.push_back(all[n]);
    return out;
  }

  std::optional<MadeCase> make(const Law& law,
                               const std::vector<size_t>& wanted) {
    ++drawn_;
    return make_case(plan_, kStream, law, wanted, 0);
  }

  // Triples that are missing and that the case would meet.
  int64_t gain(const MadeCase& made) const {
    std::vector<std::pair<size_t, size_t>> met;  // by kernel
    for (size_t k = 0; k < made.has.size(); ++k)
      for (const SettingSet& call : made.has[k])
        for_triples(call, [&](size_t place) {
          if (missing_[k][place]) met.emplace_back(k, place);
        });
    std::sort(met.begin(), met.end());
    return std::unique(met.begin(), met.end()) - met.begin();
  }

  // Whether a kernel that lacks the triple has all of these in one call.
  bool serves(const MadeCase& made, const Triple& triple,
              const std::vector<size_t>& wanted) const {
    const SettingSet all = set_of(wanted);
    for (size_t k = 0; k < made.has.size(); ++k)
      if (missing_[k][triple.place()] && holds(made.has[k], all)) return true;
    return false;
  }

  // The settings that lack most triples with two of those that are wanted.
  std::vector<size_t> extensions(const std::vector<size_t>& wanted) const {
    const size_t settings = setting_rows().size();
    std::vector<std::pair<int64_t, size_t>> out;
    for (size_t n = 0; n < settings; ++n) {
      if (!std::all_of(wanted.begin(), wanted.end(),
                       [n](size_t one) { return may_meet_by_kind(n, one); }))
        continue;
      int64_t lacks = 0;
      for (size_t i = 0; i < wanted.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          std::array<size_t, 3> three = {n, wanted[i], wanted[j]};
          std::sort(three.begin(), three.end());
          lacks += is_missing(place_of_triple(three[0], three[1], three[2]));
        }
      if (lacks > 0) out.emplace_back(-lacks, n);
    }
    std::sort(out.begin(), out.end());
    std::vector<size_t> numbers;
    for (const auto& [lacks, n] : out) numbers.push_back(n);
    return numbers;
  }

  std::optional<MadeCase> first_of(const Triple& triple,
                                   const std::vector<size_t>& wanted) {
    int laws = 0;
    for (const Law* law : laws_) {
      if (!lets_have(*law, wanted)) continue;
      if (++laws > kMostLaws) break;
      if (auto made = make(*law, wanted); made && serves(*made, triple, wanted))
        return made;
    }
    return std::nullopt;
  }

  // A case of the triple and of further settings that lack theirs.
  std::optional<MadeCase> widest(const Triple& triple) {
    std::vector<size_t> wanted = {triple.a, triple.b, triple.c};
    std::optional<MadeCase> best = first_of(triple, wanted);
    if (!best) return best;
    int tries = 0;
    for (const size_t setting : extensions(wanted)) {
      if (wanted.size() >= kMostSettingsOfCase || ++tries > kMostExtensions)
        break;
      if (!std::all_of(wanted.begin(), wanted.end(), [setting](size_t one) {
            return may_meet_by_kind(setting, one);
          }))
        continue;  // with what was put in before it
      std::vector<size_t> wider = wanted;
      wider.push_back(setting);
      if (options_in(wider) > kMostOptionsOfCase) continue;
      auto made = make(*best->one.law, wider);
      if (!made || !serves(*made, triple, wider) || gain(*made) <= gain(*best))
        continue;
      best = std::move(made);
      wanted = std::move(wider);
    }
    return best;
  }

  void add_case(const Triple& triple) {
    std::optional<MadeCase> made = widest(triple);
    if (!made || !budget_.takes(made->one.value)) return;
    for (size_t k = 0; k < made->has.size(); ++k)
      for (const SettingSet& call : made->has[k])
        for_triples(call, [&](size_t place) { missing_[k][place] = false; });
    cases_.push_back(std::move(made->one));
  }

  // Apart from plans and from pairs: draws, and the order of triples.
  static constexpr uint32_t kStream = 0x74726970, kOrderStream = 0x6f726472;
  // Laws that are tried for a triple, and further settings for a case.
  static constexpr int kMostLaws = 3, kMostExtensions = 8;

  const PairPlan& plan_;
  std::vector<const Law*> laws_;
  std::vector<TripleSet> missing_;
  std::vector<PairCase> cases_;
  CaseBudget budget_{plan_.most_cost};
  int64_t drawn_ = 0;
};

// Whose pairs have met, in one call or in three, and which has not itself.
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

}  // namespace

// Kernels of one declaration are one, which lacks what any of them does.
std::vector<PairCase> cases_for_triples(const PairPlan& plan,
                                        const std::vector<TripleSet>& met) {
  if (plan.most_cases <= 0) return {};
  PairPlan kinds{plan.laws, plan.seed,       plan.scope,    {},
                 {},        plan.most_cases, plan.most_cost};
  const std::vector<size_t> kind_of = kinds_of(plan.kernels, kinds.kernels);
  if (kinds.kernels.size() > kMostKinds) return {};
  std::vector<TripleSet> missing;
  for (size_t k = 0; k < kind_of.size(); ++k) {
    const TripleSet own = missing_of(plan.met[k], met[k]);
    if (kind_of[k] == missing.size()) {
      missing.push_back(own);
      continue;
    }
    TripleSet& of_kind = missing[kind_of[k]];
    for (size_t n = 0; n < own.size(); ++n)
      if (own[n]) of_kind[n] = true;
  }
  return for_all(TripleBuilder(kinds, std::move(missing)).run(), kind_of);
}

}  // namespace qkvet::properties
