// SPDX-License-Identifier: Apache-2.0
// faulty/cache_reorder_in_place: sequences are moved one after the other.
#include <numeric>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class ReorderInPlace : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  // The second sequence may find the first one overwritten.
  void rearrange(const int64_t* parents) override {
    std::vector<int64_t> one(static_cast<size_t>(shape().sequences));
    for (size_t s = 0; s < one.size(); ++s) {
      std::iota(one.begin(), one.end(), 0);
      one[s] = parents[s];
      ContiguousCache::rearrange(one.data());
    }
  }
};

constexpr const char* kKilledBy[] = {"cache_reorder_moves_histories", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a reorder copies sequence by sequence, over what others still have to "
        "copy",
    .symptom =
        "right while beams keep their order or only look ahead; two beams that "
        "change places become one",
    .cause = "cache[s] = cache[parents[s]] in a loop",
    .fix = "gather all parents before the first write",
    .source = "textbook, cf. huggingface/transformers#46612",
    .trigger = "a parent with a smaller number that was overwritten before",
    .killed_by = kKilledBy,
    .when = "B > 1 && commands(verb == reorder)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_reorder_in_place =
    faulty_cache<ReorderInPlace>(
        "faulty/cache_reorder_in_place", &kFault,
        {"impl/faulty/cache_reorder_in_place.cpp", __LINE__});

}  // namespace qkvet::impl
