// SPDX-License-Identifier: Apache-2.0
// Cases in which a kernel with tiles, or with code for one extent, takes
// another path: one, two and three times a number of keys or queries. A
// sentence may be true of one tile and false from the second one on.
#ifndef QKVET_DIAGNOSIS_EVIDENCE_TILES_H_
#define QKVET_DIAGNOSIS_EVIDENCE_TILES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "properties/run/runner.h"

namespace qkvet::diagnosis {

// Whole numbers of a text that could be tiles: "the first 16 keys" has 16.
std::vector<int64_t> numbers_in(std::string_view text);

// Those of the kernel's hints, and of the extents at which a case fails.
std::vector<int64_t> tiles_near(const std::vector<Hint>& hints,
                                const Case& value);

// The case with three times, twice and once so many keys, then queries, and
// with one more of each. Empty for stories, and for lengths and pages, which
// have extents of their own.
std::vector<Case> at_tiles(const Law& law, const Case& value,
                           const std::vector<int64_t>& tiles);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_EVIDENCE_TILES_H_
