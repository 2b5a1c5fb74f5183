// SPDX-License-Identifier: Apache-2.0
// faulty/cache_stale_value_times_zero: slots behind the end take part with
// weight 0.
#include "impl/faulty/fault.h"
#include "impl/faulty/stale_tail_cache.h"

namespace qkvet::impl {
namespace {

struct StaleValueTimesZero {
  static float weighed(float stale) { return 0 * stale; }
};

constexpr const char* kKilledBy[] = {"cache_reset_forgets",
                                     "cache_truncate_forgets", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the last tile of keys is masked by its weights, which are 0, and 0 "
        "times NaN is NaN",
    .symptom =
        "right on a fresh cache; NaN after the pool has been filled once",
    .cause =
        "scores are masked and values are not: what slots hold behind the end "
        "is taken to be finite",
    .fix = "do not read values behind the end, or clear them",
    .source = "vllm-project/vllm#936, #43961",
    .trigger =
        "a sequence that does not fill its last tile, and NaN in what the tile "
        "held before",
    .killed_by = kKilledBy,
    .when =
        "(commands(held < before) || commands(verb == fork || verb == "
        "reorder)) && commands(queries > 0 && held % 4 != 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_stale_value_times_zero =
    faulty_cache<StaleTailCache<StaleValueTimesZero>, /*kOptions=*/0>(
        "faulty/cache_stale_value_times_zero", &kFault,
        {"impl/faulty/cache_stale_value_times_zero.cpp", __LINE__});

}  // namespace qkvet::impl
