// SPDX-License-Identifier: Apache-2.0
// The settings of a call that pairs are made of, by number: options first, and
// behind them the values of each kind of which a call has one, such as the
// class of its number of keys.
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

// "keys" of "keys: 1"; of an option that excludes none, its name.
std::string_view kind_of(std::string_view name);
inline bool same_kind(std::string_view a, std::string_view b) {
  return kind_of(a) == kind_of(b);
}
// The numbers of both settings: two of a kind never meet.
bool may_meet_by_kind(size_t a, size_t b);

// Classes of numbers of rows and keys: from the first to the last of these.
std::pair<int64_t, int64_t> extents_of_class(size_t value);
// The classes of widths.
inline constexpr size_t kWidthOne = 0, kWidthVectors = 1, kWidthRest = 2;
inline constexpr int64_t kVectorWidth = 8;
Layout layout_of_setting(size_t value);

// What a call has. The case that it was made for says what its data is.
SettingSet settings_of(const Case& value, const KernelCall& call);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_PAIR_SETTINGS_H_
