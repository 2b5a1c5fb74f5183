// SPDX-License-Identifier: Apache-2.0
// The settings of a call that pairs are made of, by number. Options come first,
// and then the values of each kind of which a call has one, such as the class
// of its number of keys.
#ifndef QKVET_PROPERTIES_CASES_PAIR_SETTINGS_H_
#define QKVET_PROPERTIES_CASES_PAIR_SETTINGS_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/case/case.h"

namespace qkvet::properties {

inline constexpr size_t kMostSettings = 128;
using SettingSet = std::bitset<kMostSettings>;
using PairTable = std::array<SettingSet, kMostSettings>;  // symmetric

// In the order in which cases get them.
enum class SettingKind {
  kStorage,
  kRows,
  kKeys,
  kWidth,
  kMembers,
  kOption,
  kLayout,
  kData
};

struct SettingRow {
  SettingKind kind;
  size_t value;     // of its kind
  uint64_t option;  // QKVET_OPTION_*, of an option
  std::string name;
};
const std::vector<SettingRow>& setting_rows();

// The number under which cases are drawn for a setting. An option that is added
// later gets a number after all others, so that a kernel without it keeps its
// cases.
uint32_t number_in_draws(size_t setting);

// "keys" of "keys: 1"; of an option that excludes none, its name.
std::string_view kind_of(std::string_view name);
inline bool same_kind(std::string_view a, std::string_view b) {
  return kind_of(a) == kind_of(b);
}
// The numbers of both settings: two of a kind never meet.
bool may_meet_by_kind(size_t a, size_t b);

// The place of three settings in ascending order; TripleSet has a bit for each.
inline constexpr size_t place_of_triple(size_t a, size_t b, size_t c) {
  return c * (c - 1) * (c - 2) / 6 + b * (b - 1) / 2 + a;
}
using TripleSet = std::vector<bool>;  // empty: none

// Calls seen(place) for every three of these.
template <class Seen>
void for_triples(const SettingSet& settings, Seen seen) {
  std::vector<size_t> own;
  for (size_t n = 0; n < kMostSettings; ++n)
    if (settings[n]) own.push_back(n);
  for (size_t c = 2; c < own.size(); ++c)
    for (size_t b = 1; b < c; ++b)
      for (size_t a = 0; a < b; ++a)
        seen(place_of_triple(own[a], own[b], own[c]));
}

// Classes of numbers of rows and keys: from the first to the last of these.
std::pair<int64_t, int64_t> extents_of_class(size_t value);
// The classes of widths.
inline constexpr size_t kWidthOne = 0, kWidthVectors = 1, kWidthRest = 2;
inline constexpr int64_t kVectorWidth = 8;
Layout layout_of_setting(size_t value);

// The settings of a call. Its data is that of the case that it was made for.
SettingSet settings_of(const Case& value, const KernelCall& call);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_PAIR_SETTINGS_H_
