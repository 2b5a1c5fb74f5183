// SPDX-License-Identifier: Apache-2.0
// faulty/cache_reorder_scatters: a reorder sends sequences to their parents.
#include <exception>
#include <numeric>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

qkvet_status scatter_cache(const qkvet_kernel* self, qkvet_cache* cache,
                           const int64_t* parents, qkvet_text* why) {
  const Cache& c = *reinterpret_cast<Cache*>(cache);
  bool legal = parents != nullptr;
  for (int64_t s = 0; legal && s < c.shape().sequences; ++s) {
    legal = c.has(parents[s]);
  }
  if (!legal) {
    return reorder_cache(self, cache, parents, why);
  }
  try {
    // A sequence that nobody is sent to stays what it is.
    std::vector<int64_t> from(static_cast<size_t>(c.shape().sequences));
    std::iota(from.begin(), from.end(), 0);
    for (int64_t s = 0; s < c.shape().sequences; ++s) {
      from[static_cast<size_t>(parents[s])] = s;
    }
    return reorder_cache(self, cache, from.data(), why);
  } catch (const std::exception&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the order");
  }
}

constexpr const char* kKilledBy[] = {"cache_agrees_with_history",
                                     "cache_reorder_moves_histories", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "cache[parents[s]] = cache[s], where cache[s] = cache[parents[s]] is "
        "asked",
    .symptom =
        "right while beams exchange their places in pairs; a beam that dies "
        "out survives, and the one to follow is lost",
    .cause = "a scatter by an index stands where a gather by it belongs",
    .fix = "gather: index_select, not index_copy",
    .source = "textbook",
    .trigger = "a reorder that is not its own inverse",
    .killed_by = kKilledBy,
    .when = "B > 1 && commands(verb == reorder)",
};

constexpr qkvet_cache_table kTable = [] {
  qkvet_cache_table table = kCacheTable<ContiguousCache, QKVET_CACHE_ROPE>;
  table.reorder = scatter_cache;
  return table;
}();

}  // namespace

extern constinit const qkvet_kernel faulty_cache_reorder_scatters =
    faulty_cache("faulty/cache_reorder_scatters", &kFault,
                 {"impl/faulty/cache_reorder_scatters.cpp", __LINE__}, &kTable);

}  // namespace qkvet::impl
