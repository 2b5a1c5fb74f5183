// SPDX-License-Identifier: Apache-2.0
// faulty/cache_stale_value_times_zero: slots behind the end take part with
// weight 0.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

class StaleValueTimesZero : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  // Up to the end of the last tile.
  int64_t attended(const CacheStep&, int64_t keys) const override {
    const int64_t whole = (keys + tile() - 1) / tile() * tile();
    behind_ = std::min(whole, shape().capacity) - keys;
    return keys + behind_;
  }
  int64_t diagonal(int64_t keys, int64_t queries) const override {
    return ContiguousCache::diagonal(keys - behind_, queries);
  }
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    const qkvet_status status = ContiguousCache::attend_rows(call, why);
    for (int64_t head = 0; head < call.heads; ++head) {
      for (int64_t i = 0; i < call.queries; ++i) {
        float* const o = call.o.at(0, head, i);
        for (int64_t j = call.keys - behind_; j < call.keys; ++j) {
          const float* const v = call.v.at(0, 0, j);
          for (int64_t c = 0; c < call.value_width; ++c) {
            o[c * call.o.step[3]] += 0 * v[c * call.v.step[3]];
          }
        }
      }
    }
    return status;
  }

 private:
  mutable int64_t behind_ = 0;  // slots of the last tile without a token
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
    faulty_cache<StaleValueTimesZero, /*kOptions=*/0>(
        "faulty/cache_stale_value_times_zero", &kFault,
        {"impl/faulty/cache_stale_value_times_zero.cpp", __LINE__});

}  // namespace qkvet::impl
