// SPDX-License-Identifier: Apache-2.0
// faulty/cache_stale_table_tail: pages that were given back stay in the
// table of their old owner.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {
namespace {

class StaleTableTail : public PagedCache {
 public:
  // Every token needs a page.
  explicit StaleTableTail(const CacheShape& shape)
      : PagedCache(shape, /*page_tokens=*/1) {}

  void truncate(int64_t sequence, int64_t tokens) override {
    const Table& pages = table(sequence);
    for (int64_t n = pages_for(tokens); n < pages_for(held(sequence)); ++n) {
      pool().give_back(pages[static_cast<size_t>(n)]);
    }
    set_held(sequence, tokens);
  }
};

constexpr const char* kKilledBy[] = {"cache_sequences_are_separate",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "entries of the table behind the end of a sequence name pages that "
        "others own, and are written to",
    .symptom =
        "right on a fresh cache; after a reset a new prompt overwrites that of "
        "another sequence",
    .cause =
        "a table is as long as it ever was, and an entry that is there counts "
        "as a page that is held",
    .fix =
        "cut the table where the sequence ends, or fill its tail with an "
        "invalid page",
    .source = "vllm-project/vllm#42494, tenstorrent/tt-metal#56324",
    .trigger =
        "a reset or a truncation, a step of another sequence, and a step of "
        "the first one",
    .killed_by = kKilledBy,
    .when = "commands((verb == truncate || verb == reset) && held < before)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_stale_table_tail =
    faulty_cache<StaleTableTail>(
        "faulty/cache_stale_table_tail", &kFault,
        {"impl/faulty/cache_stale_table_tail.cpp", __LINE__});

}  // namespace qkvet::impl
