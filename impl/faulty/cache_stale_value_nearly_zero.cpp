// SPDX-License-Identifier: Apache-2.0
// faulty/cache_stale_value_nearly_zero: slots behind the end take part with a
// weight that is nearly 0.
#include <algorithm>
#include <cmath>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

class StaleValueNearlyZero : public ContiguousCache {
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
  // What is not finite was found once, and is cleared since.
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    const qkvet_status status = ContiguousCache::attend_rows(call, why);
    for (int64_t head = 0; head < call.heads; ++head) {
      for (int64_t i = 0; i < call.queries; ++i) {
        float* const o = call.o.at(0, head, i);
        for (int64_t j = call.keys - behind_; j < call.keys; ++j) {
          const float* const v = call.v.at(0, 0, j);
          for (int64_t c = 0; c < call.value_width; ++c) {
            const float stale = v[c * call.v.step[3]];
            o[c * call.o.step[3]] += std::isfinite(stale) ? kWeight * stale : 0;
          }
        }
      }
    }
    return status;
  }

 private:
  // About exp(-10): of a mask that is a number.
  static constexpr float kWeight = 0x1p-14f;
  mutable int64_t behind_ = 0;  // slots of the last tile without a token
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
    faulty_cache<StaleValueNearlyZero, /*kOptions=*/0>(
        "faulty/cache_stale_value_nearly_zero", &kFault,
        {"impl/faulty/cache_stale_value_nearly_zero.cpp", __LINE__});

}  // namespace qkvet::impl
