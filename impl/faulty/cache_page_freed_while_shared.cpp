// SPDX-License-Identifier: Apache-2.0
// faulty/cache_page_freed_while_shared: a reset frees pages that a fork
// still holds.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {
namespace {

class PageFreedWhileShared : public PagedCache {
 public:
  // Every token needs a page.
  explicit PageFreedWhileShared(const CacheShape& shape)
      : PagedCache(shape, /*page_tokens=*/1) {}

  void truncate(int64_t sequence, int64_t tokens) override {
    Table& pages = table(sequence);
    while (static_cast<int64_t>(pages.size()) > pages_for(tokens)) {
      while (!pool().give_back(pages.back())) {  // nobody may hold it any more
      }
      pages.pop_back();
    }
    set_held(sequence, tokens);
  }
};

constexpr const char* kKilledBy[] = {"cache_forks_are_independent", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "what a sequence gives up is free at once, also if another one holds "
        "it",
    .symptom =
        "after one branch has ended, the other one answers from a prompt that "
        "came later",
    .cause =
        "the function that ends a request frees its pages, and does not "
        "release them",
    .fix = "free a page when its last holder gives it back",
    .source = "textbook (PagedAttention, reference counts)",
    .trigger =
        "a fork, a reset or a truncation of one branch, and a later step that "
        "needs a page",
    .killed_by = kKilledBy,
    .when =
        "commands(verb == fork || verb == reorder) && commands(verb == "
        "truncate || verb == reset)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_page_freed_while_shared =
    faulty_cache<PageFreedWhileShared>(
        "faulty/cache_page_freed_while_shared", &kFault,
        {"impl/faulty/cache_page_freed_while_shared.cpp", __LINE__});

}  // namespace qkvet::impl
