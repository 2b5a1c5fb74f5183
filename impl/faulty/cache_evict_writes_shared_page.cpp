// SPDX-License-Identifier: Apache-2.0
// faulty/cache_evict_writes_shared_page: an eviction closes up within pages
// that a fork still holds.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {
namespace {

class EvictWritesSharedPage : public PagedCache {
 public:
  using PagedCache::PagedCache;

 protected:
  void own(int64_t, int64_t, int64_t) override {}
};

constexpr const char* kKilledBy[] = {"cache_forks_are_independent", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "an eviction moves tokens within pages that another sequence holds, "
        "too",
    .symptom =
        "the branch that evicts is right; its fork has lost tokens in its "
        "middle and holds others twice",
    .cause = "copying on write is in the way of appending alone",
    .fix = "copy every shared page that is written to",
    .source = "textbook (PagedAttention, copy on write)",
    .trigger =
        "a fork, an eviction from one branch, and a question to the other",
    .killed_by = kKilledBy,
    .when =
        "commands(verb == fork || verb == reorder) && commands(verb == evict "
        "&& first < held)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_evict_writes_shared_page =
    faulty_cache<EvictWritesSharedPage>(
        "faulty/cache_evict_writes_shared_page", &kFault,
        {"impl/faulty/cache_evict_writes_shared_page.cpp", __LINE__});

}  // namespace qkvet::impl
