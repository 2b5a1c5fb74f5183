// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_coverage.h"

#include <algorithm>

namespace qkvet::properties {
namespace {

int kinds_in(const std::pair<std::string, std::string>& pair) {
  return (kind_of(pair.first) != pair.first) +
         (kind_of(pair.second) != pair.second);
}

}  // namespace

bool MetPairs::may_meet(size_t a, size_t b) const {
  return a != b && !same_kind(settings[a], settings[b]) && !is_apart(a, b);
}

int64_t MetPairs::possible() const {
  int64_t pairs = 0;
  for (size_t a = 0; a < settings.size(); ++a)
    for (size_t b = a + 1; b < settings.size(); ++b) pairs += may_meet(a, b);
  return pairs;
}

int64_t MetPairs::seen() const {
  return possible() - static_cast<int64_t>(never().size());
}

int64_t MetPairs::possible_triples() const {
  const auto meet = [this](size_t a, size_t b) {
    return met[a][b] && may_meet(a, b);
  };
  int64_t count = 0;
  for (size_t a = 0; a < settings.size(); ++a)
    for (size_t b = a + 1; b < settings.size(); ++b) {
      if (!meet(a, b)) continue;
      for (size_t c = b + 1; c < settings.size(); ++c)
        count += meet(a, c) && meet(b, c);
    }
  return count;
}

template <class Wanted>
std::vector<std::pair<std::string, std::string>> MetPairs::pairs_where(
    Wanted wanted) const {
  std::vector<std::pair<std::string, std::string>> out;
  for (size_t a = 0; a < settings.size(); ++a)
    for (size_t b = a + 1; b < settings.size(); ++b)
      if (wanted(a, b)) out.emplace_back(settings[a], settings[b]);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& one, const auto& two) {
                     return kinds_in(one) < kinds_in(two);
                   });
  return out;
}

std::vector<std::pair<std::string, std::string>> MetPairs::never() const {
  return pairs_where(
      [this](size_t a, size_t b) { return may_meet(a, b) && !met[a][b]; });
}

std::vector<std::pair<std::string, std::string>> MetPairs::cannot() const {
  return pairs_where([this](size_t a, size_t b) {
    return is_apart(a, b) && !same_kind(settings[a], settings[b]);
  });
}

void MetPairs::add(const MetPairs& other) {
  added += other.added;
  if (other.settings.empty()) return;
  const size_t own = settings.size();
  triples = own == 0 ? other.triples : std::nullopt;
  added_triples += other.added_triples;
  std::vector<size_t> at;  // of the other's settings, here
  if (apart.empty() != other.apart.empty() && own > 0) apart.clear();
  const bool knows_apart = own == 0 || !apart.empty();
  for (const std::string& setting : other.settings) {
    const auto found = std::find(settings.begin(), settings.end(), setting);
    at.push_back(static_cast<size_t>(found - settings.begin()));
    if (found != settings.end()) continue;
    settings.push_back(setting);
    for (Table* table : {&met, &apart}) {
      if (table == &apart && (!knows_apart || other.apart.empty())) continue;
      for (std::vector<bool>& row : *table) row.push_back(false);
      table->emplace_back(settings.size(), false);
    }
  }
  for (size_t a = 0; a < at.size(); ++a)
    for (size_t b = 0; b < at.size(); ++b) {
      if (other.met[a][b]) met[at[a]][at[b]] = true;
      if (apart.empty()) continue;
      const bool both_known = at[a] < own && at[b] < own;
      apart[at[a]][at[b]] =
          other.apart[a][b] && (!both_known || apart[at[a]][at[b]]);
    }
}

void PairCoverage::count(const Case& value, const KernelCall& call) {
  const SettingSet has = settings_of(value, call);
  for (size_t n = 0; n < setting_rows().size(); ++n)
    if (has[n]) with_[n] |= has;
  triples_.resize(place_of_triple(0, 0, kMostSettings));
  for_triples(has, [this](size_t place) { triples_[place] = true; });
}

void PairCoverage::add(const PairCoverage& other) {
  for (size_t n = 0; n < kMostSettings; ++n) with_[n] |= other.with_[n];
  triples_.resize(std::max(triples_.size(), other.triples_.size()));
  for (size_t n = 0; n < other.triples_.size(); ++n)
    if (other.triples_[n]) triples_[n] = true;
}

MetPairs PairCoverage::met(const PairTable* can) const {
  std::vector<size_t> known;
  for (size_t n = 0; n < setting_rows().size(); ++n)
    if (with_[n][n] || (can != nullptr && (*can)[n].any())) known.push_back(n);
  MetPairs out;
  out.triples = triples();
  for (const size_t a : known) {
    out.settings.push_back(setting_rows()[a].name);
    std::vector<bool>& row = out.met.emplace_back();
    for (const size_t b : known) row.push_back(with_[a][b]);
    if (can == nullptr) continue;
    std::vector<bool>& apart = out.apart.emplace_back();
    for (const size_t b : known)
      apart.push_back(!with_[a][b] && !(*can)[a][b] && may_meet_by_kind(a, b));
  }
  return out;
}

int64_t PairCoverage::triples() const {
  return std::count(triples_.begin(), triples_.end(), true);
}

int64_t PairCoverage::pairs() const {
  int64_t count = 0;
  for (size_t a = 0; a < setting_rows().size(); ++a)
    for (size_t b = a + 1; b < setting_rows().size(); ++b)
      count += with_[a][b] && may_meet_by_kind(a, b);
  return count;
}

}  // namespace qkvet::properties
