// SPDX-License-Identifier: Apache-2.0
// The options of attention that a KV cache also has. It declares them by bits
// of its own (qkvet/cache.h), one row each.
#ifndef QKVET_CORE_CALL_CACHE_OPTIONS_H_
#define QKVET_CORE_CALL_CACHE_OPTIONS_H_

#include <cstdint>

#include "qkvet/cache.h"
#include "qkvet/kernel.h"

namespace qkvet {

struct CacheOption {
  uint64_t declared;  // QKVET_CACHE_*
  uint64_t option;    // QKVET_OPTION_*
};

// In the order of the bits that a cache declares.
inline constexpr CacheOption kCacheOptions[] = {
    {QKVET_CACHE_ROPE, QKVET_OPTION_ROPE},
    {QKVET_CACHE_WINDOW, QKVET_OPTION_WINDOW},
    {QKVET_CACHE_ALIBI, QKVET_OPTION_ALIBI},
    {QKVET_CACHE_SINK, QKVET_OPTION_SINK},
    {QKVET_CACHE_SOFTCAP, QKVET_OPTION_SOFTCAP},
    {QKVET_CACHE_MASK, QKVET_OPTION_MASK},
    {QKVET_CACHE_BIAS, QKVET_OPTION_BIAS},
    {QKVET_CACHE_ROPE_PART, QKVET_OPTION_ROPE_PART}};

// The options QKVET_OPTION_* of a cache that declares these QKVET_CACHE_*.
constexpr uint64_t options_by_cache_bits(uint64_t declared) {
  uint64_t options = 0;
  for (const CacheOption& row : kCacheOptions)
    if ((declared & row.declared) != 0) options |= row.option;
  return options;
}

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_CACHE_OPTIONS_H_
