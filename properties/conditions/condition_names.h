// SPDX-License-Identifier: Apache-2.0
// The names in conditions: a row of condition_names.cpp each, or one of
// core/case/option_fields.cpp for a field of an option.
#ifndef QKVET_PROPERTIES_CONDITIONS_CONDITION_NAMES_H_
#define QKVET_PROPERTIES_CONDITIONS_CONDITION_NAMES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "properties/conditions/situation.h"

namespace qkvet::properties {

// The scope of a name: everywhere, or within rows() and its like.
enum class ConditionScope : uint8_t { kCase, kRow, kMember, kCommand };

// The place at which names are evaluated.
struct ConditionPlace {
  const Situation* situation = nullptr;
  int64_t b = 0, h = 0, row = 0;       // rows()
  int64_t queries = 0, keys = 0;       // of the member: both of the former
  int64_t first_key = 0;               // of the row's member
  const CommandAt* command = nullptr;  // commands()
};

struct ConditionWord {
  std::string_view name;
  int64_t value = 0;
};

struct ConditionName {
  std::string_view name;
  ConditionScope scope = ConditionScope::kCase;
  int64_t (*at_place)(const ConditionPlace& place) = nullptr;
  // The words that it can be compared with, if it is not a number.
  std::span<const ConditionWord> words = {};
  int64_t (*of_case)(const Case& value) = nullptr;  // instead of at_place

  int64_t value(const ConditionPlace& place) const {
    return of_case != nullptr ? of_case(place.situation->value())
                              : at_place(place);
  }
};

// Null if there is no such name in this scope.
const ConditionName* find_condition_name(std::string_view name,
                                         ConditionScope scope);
// "B, H, Hkv, ...": those of this scope alone.
std::string condition_names(ConditionScope scope);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONDITIONS_CONDITION_NAMES_H_
