// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>

#include <algorithm>

#include "fuzz/targets/target.h"

namespace qkvet::fuzz {

#define QKVET_FUZZ_TARGET(name) extern const FuzzTarget fuzz_##name;
#include "fuzz_targets.inc"
#undef QKVET_FUZZ_TARGET

namespace {

#define QKVET_FUZZ_TARGET(name) &fuzz_##name,
constinit const FuzzTarget* const kTargets[] = {
#include "fuzz_targets.inc"
};
#undef QKVET_FUZZ_TARGET

}  // namespace

std::span<const FuzzTarget* const> fuzz_targets() { return kTargets; }

const FuzzTarget* find_fuzz_target(std::string_view name) {
  for (const FuzzTarget* target : kTargets)
    if (target->name == name) return target;
  return nullptr;
}

std::vector<const Law*> laws_of(const FuzzTarget& target) {
  std::vector<const Law*> laws;
  for (const Law* law : all_laws())
    if (law->domain.subject == target.subject &&
        std::any_of(
            target.laws.begin(), target.laws.end(),
            [law](const char* glob) { return fnmatch(glob, law->id, 0) == 0; }))
      laws.push_back(law);
  return laws;
}

}  // namespace qkvet::fuzz
