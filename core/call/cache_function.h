// SPDX-License-Identifier: Apache-2.0
// The function of a cache for each operation of a call.
#ifndef QKVET_CORE_CALL_CACHE_FUNCTION_H_
#define QKVET_CORE_CALL_CACHE_FUNCTION_H_

#include "core/call/call.h"
#include "qkvet/kernel.h"

namespace qkvet {

struct CacheFunction {
  const char* name;
  bool offered;
};

inline CacheFunction function_of(const qkvet_cache_table& table,
                                 Operation operation) {
  switch (operation) {
    case Operation::kCacheReset:
      return {"reset", true};
    case Operation::kCacheTruncate:
      return {"truncate", table.truncate != nullptr};
    case Operation::kCacheEvict:
      return {"evict", table.evict != nullptr};
    case Operation::kCacheFork:
      return {"fork", table.fork != nullptr};
    case Operation::kCacheReorder:
      return {"reorder", table.reorder != nullptr};
    case Operation::kCacheReadBack:
      return {"read_back", table.read_back != nullptr};
    default:
      return {"step", true};
  }
}

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_CACHE_FUNCTION_H_
