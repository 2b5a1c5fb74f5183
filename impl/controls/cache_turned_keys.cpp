// SPDX-License-Identifier: Apache-2.0
// controls/cache_turned_keys: contiguous memory of rotated keys (turned.h).
#include "impl/cache_memory.h"
#include "impl/kv_cache/turned.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_cache_turned_keys = cache_kernel(
    "controls/cache_turned_keys", "keys are stored rotated, in their type",
    {"impl/controls/cache_turned_keys.cpp", __LINE__},
    &kTurnedTable<TurnedKeys<ContiguousCache>>, &kTurnedPrecision);

}  // namespace qkvet::impl
