// SPDX-License-Identifier: Apache-2.0
// The list of laws, out of the CMake list of the files that hold them.
#include <string_view>

#include "properties/law.h"

namespace qkvet {

#define QKVET_LAW(name) extern const Law name;
#include "laws.inc"
#undef QKVET_LAW

std::span<const Law* const> all_laws() {
  static constexpr const Law* kLaws[] = {
#define QKVET_LAW(name) &(name),
#include "laws.inc"
#undef QKVET_LAW
  };
  return kLaws;
}

const Law* find_law(std::string_view id) {
  for (const Law* law : all_laws())
    if (id == law->id) return law;
  return nullptr;
}

}  // namespace qkvet
