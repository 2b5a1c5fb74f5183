// SPDX-License-Identifier: Apache-2.0
// The list of laws, from the files that define them.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/judging/subject.h"

namespace qkvet::properties {

#define QKVET_LAW(name) extern const Law name;
#define QKVET_LAW_TABLE(name) extern const LawTable name;
#include "laws.inc"
#undef QKVET_LAW
#undef QKVET_LAW_TABLE

namespace {

std::vector<const Law*> in_order() {
  std::vector<const Law*> laws;
#define QKVET_LAW(name) laws.push_back(&(name));
#define QKVET_LAW_TABLE(name) \
  for (const Law& law : name) laws.push_back(&law);
#include "laws.inc"
#undef QKVET_LAW
#undef QKVET_LAW_TABLE
  const auto place = [](const Law* law) {
    return std::pair(&subject_row(law->domain.subject), law->rank);
  };
  std::ranges::sort(laws, {}, place);
  return laws;
}

}  // namespace

std::span<const Law* const> all_laws() {
  static const std::vector<const Law*> laws = in_order();
  return laws;
}

const Law* find_law(std::string_view id) {
  for (const Law* law : all_laws())
    if (id == law->id) return law;
  return nullptr;
}

}  // namespace qkvet::properties
