// SPDX-License-Identifier: Apache-2.0
// controls/cache_online4: a contiguous cache that attends with an online
// softmax over blocks of 4 keys, as kernels over pages do.
#include "impl/cache_memory.h"
#include "impl/cache_table.h"
#include "impl/controls/online.h"

namespace qkvet::impl {
namespace {

constexpr int kBlock = 4;

class OnlineCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    return compute_rows<Online<OnlineShape{.tile = kBlock}>>(call, why);
  }
};

// Rescaling keeps the order of the sums: one lane, keys ascending.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kBlock;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_cache_online4 = cache_kernel(
    "controls/cache_online4", "a cache under online softmax, blocks of 4 keys",
    {"impl/controls/cache_online4.cpp", __LINE__}, &kCacheTable<OnlineCache>,
    &kPrecision);

}  // namespace qkvet::impl
