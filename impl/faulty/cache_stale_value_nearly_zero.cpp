// SPDX-License-Identifier: Apache-2.0
// faulty/cache_stale_value_nearly_zero: slots behind the end take part with a
// weight that is nearly 0.
#include <cmath>

#include "impl/faulty/fault.h"
#include "impl/faulty/stale_tail_cache.h"

namespace qkvet::impl {
namespace {

struct StaleValueNearlyZero {
  // What is not finite was found once, and is cleared since. The weight is
  // about exp(-10): of a mask that is a number.
  static float weighed(float stale) {
    return std::isfinite(stale) ? 0x1p-14f * stale : 0;
  }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the last tile of keys is masked by a number that is not low enough: "
        "weights behind the end are 2^-14 and not 0",
    .symptom =
        "the last bits of an answer depend on what a slot held before; greedy "
        "decoding splits in two",
    .cause = "a mask that is added to the scores, chosen so that tests passed",
    .fix = "select after the exponential: behind the end a weight is 0",
    .source = "vllm-project/vllm#53856",
    .trigger =
        "a sequence that does not fill its last tile, and numbers in what the "
        "tile held before",
    .killed_by = kKilledBy,
    .when =
        "(commands(held < before) || commands(verb == fork || verb == "
        "reorder)) && commands(queries > 0 && held % 4 != 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_stale_value_nearly_zero =
    faulty_cache<StaleTailCache<StaleValueNearlyZero>, /*kOptions=*/0>(
        "faulty/cache_stale_value_nearly_zero", &kFault,
        {"impl/faulty/cache_stale_value_nearly_zero.cpp", __LINE__});

}  // namespace qkvet::impl
