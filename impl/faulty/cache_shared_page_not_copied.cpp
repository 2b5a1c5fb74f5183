// SPDX-License-Identifier: Apache-2.0
// faulty/cache_shared_page_not_copied: a page that is filled in part
// is appended to although a fork shares it.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {
namespace {

class SharedPageNotCopied : public PagedCache {
 public:
  using PagedCache::PagedCache;

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    if (tokens > shape().capacity) {
      return kBeyondCapacity;
    }
    Table& pages = table(sequence);
    while (static_cast<int64_t>(pages.size()) < pages_for(tokens)) {
      if (!pool().provide(1)) {
        return "no memory for more pages";
      }
      pages.push_back(pool().take());
    }
    return nullptr;
  }
};

constexpr const char* kKilledBy[] = {"cache_forks_are_independent", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a page that is filled in part is written although another sequence "
        "holds it",
    .symptom = "after a fork one branch sees the tokens of the other",
    .cause =
        "pages are counted, and the count is read when they are freed only",
    .fix = "copy a shared page before the first write to it",
    .source = "textbook (PagedAttention, copy on write)",
    .trigger = "a fork in the middle of a page, and a step on both branches",
    .killed_by = kKilledBy,
    .when =
        "commands(verb == fork || verb == reorder) && commands(new > 0 && "
        "before > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_shared_page_not_copied =
    faulty_cache<SharedPageNotCopied>(
        "faulty/cache_shared_page_not_copied", &kFault,
        {"impl/faulty/cache_shared_page_not_copied.cpp", __LINE__});

}  // namespace qkvet::impl
