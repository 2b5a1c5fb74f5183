// SPDX-License-Identifier: Apache-2.0
// A cache whose last tile of keys counts as a whole: what its slots behind the
// end hold takes part, with the weight that a fault gives it.
#ifndef QKVET_IMPL_FAULTY_STALE_TAIL_CACHE_H_
#define QKVET_IMPL_FAULTY_STALE_TAIL_CACHE_H_

#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {

// Seams::weighed(stale) is what a value behind the end adds.
template <class Seams>
class StaleTailCache : public ContiguousCache {
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
            o[c * call.o.step[3]] += Seams::weighed(v[c * call.v.step[3]]);
          }
        }
      }
    }
    return status;
  }

 private:
  mutable int64_t behind_ = 0;  // slots of the last tile without a token
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_STALE_TAIL_CACHE_H_
