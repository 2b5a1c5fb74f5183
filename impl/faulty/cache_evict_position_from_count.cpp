// SPDX-License-Identifier: Apache-2.0
// faulty/cache_evict_position_from_count: after an eviction tokens are turned
// by how many are held.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"
#include "impl/kv_cache/turned.h"

namespace qkvet::impl {
namespace {

class PositionFromCount : public TurnedKeys<ContiguousCache> {
 public:
  using TurnedKeys::TurnedKeys;

 protected:
  const Gaps& gaps(int64_t) const override { return none_; }

 private:
  Gaps none_;
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "new tokens and queries stand at the number of tokens that are held",
    .symptom =
        "right until something is evicted; from then on every new token is "
        "nearer to the old ones than it was, and more so with each eviction",
    .cause =
        "keys are stored rotated, and the offset of the next rotation is the "
        "number of rows",
    .fix = "count positions and rows apart",
    .source = "rajveer43/VeloxQuant-MLX#389, rajveer43/VeloxQuant-MLX#171",
    .trigger = "a rotation, an eviction, and a step behind it",
    .killed_by = kKilledBy,
    .when = "rope && commands(verb == evict && first < held)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_evict_position_from_count =
    faulty_cache("faulty/cache_evict_position_from_count", &kFault,
                 {"impl/faulty/cache_evict_position_from_count.cpp", __LINE__},
                 &kTurnedTable<PositionFromCount, QKVET_CACHE_ROPE>,
                 &kTurnedPrecision);

}  // namespace qkvet::impl
