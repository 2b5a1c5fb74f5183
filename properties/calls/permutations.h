// SPDX-License-Identifier: Apache-2.0
// Keys, key/value heads and batch members in another order: permutations by a
// case's seed and extents, and rows that follow them.
#ifndef QKVET_PROPERTIES_CALLS_PERMUTATIONS_H_
#define QKVET_PROPERTIES_CALLS_PERMUTATIONS_H_

#include <cstdint>
#include <vector>

#include "core/base/floors.h"
#include "core/case/case.h"

namespace qkvet::properties {

// The new place of key j: the keys are rotated, and reversed for odd seeds.
// Needs a key.
int64_t place_of_key(const Case& value, int64_t j);
// Key/value head `kv` goes here, and query head h with its group there.
int64_t place_of_kv_head(const Case& value, int64_t kv);
int64_t place_of_head(const Case& value, int64_t h);
// Needs a member.
int64_t place_of_member(const Case& value, int64_t b);

// [..., Tk, width].
void permute_keys(const Case& value, int64_t width, std::vector<double>& rows);
// [B, Hkv group, ...] of `size` elements each, `group` heads together.
void permute_heads(const Case& value, int64_t group, int64_t size,
                   std::vector<double>& values);
// [B, ...].
void permute_members(const Case& value, std::vector<double>& values);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_PERMUTATIONS_H_
