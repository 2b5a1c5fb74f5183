// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_cases.h"

#include <algorithm>

#include "properties/cases/made_case.h"

namespace qkvet::properties {
namespace {

// Draws for one pair under the law that is asked first, and under each other.
constexpr uint32_t kFirstTries = 8;
constexpr uint32_t kTries = 2;
constexpr int kMostExtensions = 16;

using Pair = std::pair<size_t, size_t>;

class Builder {
 public:
  explicit Builder(const PairPlan& plan)
      : plan_(plan),
        laws_(plan.laws.rbegin(), plan.laws.rend()),  // the general one first
        missing_(plan.kernels.size()) {
    found_.can = plan.met;  // at the least
  }

  PairCases run() {
    list_settings();
    for (const Pair& pair : pairs_) find(pair);
    for (size_t k = 0; k < missing_.size(); ++k)
      for (const auto& [a, b] : pairs_)
        missing_[k][a][b] = missing_[k][b][a] =
            found_.can[k][a][b] && !plan_.met[k][a][b];
    // Pairs that another's case has shown to be possible have no case yet.
    const bool knows_all = drawn_ < most_draws() / 2;
    for (const Pair& pair : pairs_) {
      if (std::ssize(found_.cases) >= plan_.most_cases ||
          drawn_ >= most_draws() || budget_.is_spent())
        break;
      if (is_missing(pair)) add_case(pair);
    }
    if (!knows_all) found_.can.clear();
    return std::move(found_);
  }

 private:
  // Thinking takes time as well: so many drawn cases for each that may be
  // added, half of them to see what is possible.
  int64_t most_draws() const {
    constexpr int64_t kDrawsOfCase = 40;
    return kDrawsOfCase * plan_.most_cases;
  }

  bool declares(size_t kernel, size_t setting) const {
    const SettingRow& row = setting_rows()[setting];
    return row.kind != SettingKind::kOption ||
           plan_.kernels[kernel]->has_option(row.option);
  }

  // Two options first.
  void list_settings() {
    const std::vector<SettingRow>& rows = setting_rows();
    std::vector<size_t> settings;
    for (size_t n = 0; n < rows.size(); ++n) {
      if (!may_have(plan_.scope, rows[n])) continue;
      find({n, n});
      if (is_had(n)) settings.push_back(n);
    }
    for (size_t a = 0; a < settings.size(); ++a)
      for (size_t b = a + 1; b < settings.size(); ++b)
        if (may_meet_by_kind(settings[a], settings[b]))
          pairs_.emplace_back(settings[a], settings[b]);
    const auto kinds = [&rows](const Pair& pair) {
      return (rows[pair.first].kind != SettingKind::kOption) +
             (rows[pair.second].kind != SettingKind::kOption);
    };
    std::stable_sort(pairs_.begin(), pairs_.end(),
                     [&](const Pair& one, const Pair& two) {
                       return kinds(one) < kinds(two);
                     });
  }

  bool is_had(size_t setting) const {
    return std::any_of(
        found_.can.begin(), found_.can.end(),
        [setting](const PairTable& can) { return can[setting][setting]; });
  }

  // Whether some kernel may meet it and nobody knows how.
  bool is_open(const Pair& pair) const {
    const auto [a, b] = pair;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const PairTable& can = found_.can[k];
      const bool apart_alone = a != b && (!can[a][a] || !can[b][b]);
      if (!can[a][b] && declares(k, a) && declares(k, b) && !apart_alone)
        return true;
    }
    return false;
  }

  bool is_missing(const Pair& pair) const {
    return std::any_of(missing_.begin(), missing_.end(),
                       [&pair](const PairTable& table) {
                         return table[pair.first][pair.second];
                       });
  }

  std::optional<MadeCase> make(const Law& law,
                               const std::vector<size_t>& wanted,
                               uint32_t number) {
    ++drawn_;
    return make_case(plan_, kStream, law, wanted, number);
  }

  // Every pair that its calls have can be met.
  void note(const MadeCase& made) {
    for (size_t k = 0; k < made.has.size(); ++k)
      for (const SettingSet& call : made.has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) found_.can[k][n] |= call;
  }

  // Looks for cases until every kernel that may have the pair has one. Of a
  // setting and itself: for cases that have it.
  void find(const Pair& pair) {
    const std::vector<size_t> wanted =
        pair.first == pair.second ? std::vector{pair.first}
                                  : std::vector{pair.first, pair.second};
    bool first = true;
    for (const Law* law : laws_) {
      if (!is_open(pair)) return;
      if (!lets_have(*law, {pair.first, pair.second})) continue;
      const uint32_t tries = first ? kFirstTries : kTries;
      first = false;
      for (uint32_t n = 0;
           n < tries && drawn_ < most_draws() / 2 && is_open(pair); ++n)
        if (const auto made = make(*law, wanted, n)) note(*made);
    }
  }

  // Pairs that are missing and that the case would meet.
  int64_t gain(const MadeCase& made) const {
    int64_t sum = 0;
    for (size_t k = 0; k < made.has.size(); ++k) {
      PairTable had{};
      for (const SettingSet& call : made.has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) had[n] |= call;
      for (size_t n = 0; n < setting_rows().size(); ++n)
        sum += static_cast<int64_t>((had[n] & missing_[k][n]).count());
    }
    return sum;
  }

  // Whether a kernel that lacks the pair has all of these in one call.
  bool serves(const MadeCase& made, const Pair& pair,
              const std::vector<size_t>& wanted) const {
    const SettingSet all = set_of(wanted);
    for (size_t k = 0; k < made.has.size(); ++k)
      if (missing_[k][pair.first][pair.second] && holds(made.has[k], all))
        return true;
    return false;
  }

  // The settings that miss most of those that are wanted, the first ones first.
  std::vector<size_t> extensions(const std::vector<size_t>& wanted) const {
    const std::vector<SettingRow>& rows = setting_rows();
    const SettingSet all = set_of(wanted);
    std::vector<std::pair<int64_t, size_t>> out;
    for (size_t n = 0; n < rows.size(); ++n) {
      if (std::any_of(wanted.begin(), wanted.end(),
                      [n](size_t one) { return !may_meet_by_kind(n, one); }))
        continue;
      int64_t lacks = 0;
      for (const PairTable& table : missing_)
        lacks += static_cast<int64_t>((table[n] & all).count());
      if (lacks > 0) out.emplace_back(-lacks, n);
    }
    std::sort(out.begin(), out.end());
    std::vector<size_t> settings;
    for (const auto& [lacks, n] : out) settings.push_back(n);
    return settings;
  }

  // A case of the pair and of further settings that miss theirs.
  std::optional<MadeCase> widest(const Pair& pair) {
    std::vector<size_t> wanted = {pair.first, pair.second};
    std::optional<MadeCase> best;
    for (const Law* law : laws_) {
      if (!lets_have(*law, {pair.first, pair.second})) continue;
      for (uint32_t n = 0; n < kFirstTries && !best; ++n)
        if (auto made = make(*law, wanted, n);
            made && serves(*made, pair, wanted))
          best = std::move(made);
      if (best) break;
    }
    if (!best) return best;
    int tries = 0;
    for (bool more = true; more && wanted.size() < kMostSettingsOfCase;) {
      more = false;
      for (const size_t setting : extensions(wanted)) {
        if (++tries > kMostExtensions) break;
        const SettingRow& row = setting_rows()[setting];
        if (row.kind == SettingKind::kOption &&
            options_in(wanted) >= kMostOptionsOfCase)
          continue;
        std::vector<size_t> wider = wanted;
        wider.push_back(setting);
        auto made = make(*best->one.law, wider, 0);
        if (!made || !serves(*made, pair, wider) || gain(*made) <= gain(*best))
          continue;
        best = std::move(made);
        wanted = std::move(wider);
        more = true;
        break;
      }
    }
    return best;
  }

  void add_case(const Pair& pair) {
    std::optional<MadeCase> made = widest(pair);
    if (!made || !budget_.takes(made->one.value)) return;
    for (size_t k = 0; k < made->has.size(); ++k)
      for (const SettingSet& call : made->has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) missing_[k][n] &= ~call;
    found_.cases.push_back(std::move(made->one));
  }

  static constexpr uint32_t kStream = 0x70616972;  // apart from plans

  const PairPlan& plan_;
  std::vector<const Law*> laws_;
  std::vector<Pair> pairs_;
  std::vector<PairTable> missing_;
  PairCases found_;
  CaseBudget budget_{plan_.most_cost};
  int64_t drawn_ = 0;
};

}  // namespace

int64_t cost_of(const Case& value) {
  constexpr int64_t kBeside = int64_t{1} << 15;
  return kBeside + work_of(value.shape);
}

// Kernels of one declaration are one, which lacks what any of them does.
PairCases cases_for_pairs(const PairPlan& plan) {
  PairPlan kinds{plan.laws, plan.seed,       plan.scope,    {},
                 {},        plan.most_cases, plan.most_cost};
  const std::vector<size_t> kind_of = kinds_of(plan.kernels, kinds.kernels);
  if (kinds.kernels.size() > kMostKinds) return {};
  for (size_t k = 0; k < kind_of.size(); ++k) {
    if (kind_of[k] == kinds.met.size()) {
      kinds.met.push_back(plan.met[k]);
      continue;
    }
    for (size_t n = 0; n < kMostSettings; ++n)
      kinds.met[kind_of[k]][n] &= plan.met[k][n];
  }
  const PairCases of_kinds = Builder(kinds).run();
  PairCases out{for_all(of_kinds.cases, kind_of), {}};
  for (size_t k = 0; k < kind_of.size(); ++k) {
    out.can.push_back(of_kinds.can[kind_of[k]]);
    for (size_t n = 0; n < kMostSettings; ++n) out.can[k][n] |= plan.met[k][n];
  }
  return out;
}

}  // namespace qkvet::properties
