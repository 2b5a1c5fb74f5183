// SPDX-License-Identifier: Apache-2.0
// Faults of caches in pages: shared pages, their tables, and pages that are
// found by what they hold.
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "impl/faulty/cache_fault.h"
#include "impl/kv_cache/pages.h"
#include "impl/kv_cache/prefix.h"
#include "impl/kv_cache/turned.h"
#include "impl/skeletons/cache_memory.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct CacheSharedPageNotCopied : PagedCache {
  using PagedCache::PagedCache;
  const char* reserve(int64_t sequence, int64_t tokens) override {
    if (tokens > shape().capacity) return kBeyondCapacity;
    Table& pages = table(sequence);
    while (static_cast<int64_t>(pages.size()) < pages_for(tokens)) {
      if (!pool().provide(1)) return "no memory for more pages";
      pages.push_back(pool().take());
    }
    return nullptr;
  }
};
QKVET_FAULT(cache_shared_page_not_copied,
            kCacheFault<CacheSharedPageNotCopied>) = {
    .when = "commands(verb == fork || verb == reorder) && commands(new > 0 && "
            "before > 0)",
    .cause = "a page that is filled in part is written although another "
             "sequence holds it",
    .fix = "copy a shared page before the first write to it",
    .source = "textbook (PagedAttention, copy on write)",
    .killed_by = {"cache_forks_are_independent"},
};

struct CacheForkSharesLength : ContiguousCache {
  explicit CacheForkSharesLength(const CacheShape& shape)
      : ContiguousCache(shape),
        counters_(static_cast<size_t>(shape.sequences)) {
    std::iota(counters_.begin(), counters_.end(), 0);
  }
  int64_t counter(int64_t sequence) const override {
    return counters_[static_cast<size_t>(sequence)];
  }
  void rearrange(const int64_t* parents) override {
    ContiguousCache::rearrange(parents);
    std::vector<int64_t> next(counters_);
    for (size_t s = 0; s < next.size(); ++s) {
      const int64_t parent = parents[s];
      const bool moves = parent != static_cast<int64_t>(s);
      const bool parent_stays = parents[parent] == parent;
      if (moves)
        next[s] = parent_stays ? counter(parent) : static_cast<int64_t>(s);
    }
    counters_ = std::move(next);
  }
  std::vector<int64_t> counters_;  // whose length is that of a sequence
};
QKVET_FAULT(cache_fork_shares_length, kCacheFault<CacheForkSharesLength>) = {
    .when = "commands(verb == fork || verb == reorder)",
    .cause = "a fork copies keys and values, and shares the length: the "
             "shallow copy keeps a reference",
    .fix = "copy the length along with the tokens",
    .killed_by = {"cache_forks_are_independent"},
};

struct CachePageFreedWhileShared : PagedCache {
  // Every token needs a page.
  explicit CachePageFreedWhileShared(const CacheShape& shape)
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
QKVET_FAULT(cache_page_freed_while_shared,
            kCacheFault<CachePageFreedWhileShared>) = {
    .when = "commands(verb == fork || verb == reorder) && commands(verb == "
            "truncate || verb == reset)",
    .cause = "the pages of a sequence are free at once when it ends, also if "
             "another one holds them",
    .fix = "free a page when its last holder gives it back",
    .source = "textbook (PagedAttention, reference counts)",
    .killed_by = {"cache_forks_are_independent"},
};

struct CacheStaleTableTail : PagedCache {
  // Every token needs a page.
  explicit CacheStaleTableTail(const CacheShape& shape)
      : PagedCache(shape, /*page_tokens=*/1) {}

  void truncate(int64_t sequence, int64_t tokens) override {
    const Table& pages = table(sequence);
    for (int64_t n = pages_for(tokens); n < pages_for(held(sequence)); ++n)
      pool().give_back(pages[static_cast<size_t>(n)]);
    set_held(sequence, tokens);
  }
};
QKVET_FAULT(cache_stale_table_tail, kCacheFault<CacheStaleTableTail>) = {
    .when = "commands((verb == truncate || verb == reset) && held < before)",
    .cause = "table entries past the end of a sequence name pages that others "
             "own, and are written to",
    .fix = "cut the table where the sequence ends, or fill its tail with an "
           "invalid page",
    .source = "vllm-project/vllm#42494, tenstorrent/tt-metal#56324",
    .killed_by = {"cache_sequences_are_separate", "cache_agrees_with_history"},
};

// [pages, Hkv, tile, d]; the pages of a sequence follow one another.
struct CacheSlotOfOtherPageSize : ContiguousCache {
  explicit CacheSlotOfOtherPageSize(const CacheShape& shape)
      : ContiguousCache(shape,
                        (shape.capacity + 2 * tile() - 1) & -2 * tile()) {}
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t j) const override {
    return slot(step.sequence, head, before + j, 2 * tile());
  }
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    return slot(step.sequence, head, before + j, 2 * tile());
  }

  Rows keys(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).keys, shape().width, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return gather(reading, memory(reading.sequence).values, shape().value_width,
                  room);
  }
  int64_t slot(int64_t sequence, int64_t head, int64_t token,
               int64_t page) const {
    return first_slot(sequence, /*head=*/0, /*n=*/0) +
           (token / page * shape().kv_heads + head) * page + token % page;
  }

  Rows gather(const Reading& reading, const Memory& from, int64_t width,
              float* room) const {
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width)
      load_rows(shape().storage, from,
                slot(reading.sequence, reading.head, j, tile()), 1, width, to);
    return {room, width, 1};
  }
};
QKVET_FAULT(cache_slot_of_other_page_size,
            kCacheFault<CacheSlotOfOtherPageSize>) = {
    .when = "Hkv > 1 && commands(new > 0)",
    .cause = "a slot numbers a token in pages of 4, and the code that writes "
             "it assumes pages of 8",
    .fix = "pass the page size along with the pages",
    .source = "vllm-project/vllm#47056",
    .killed_by = {"cache_stores_what_it_is_given", "cache_agrees_with_history"},
    .tiled = true,
};

struct CachePrefixHashIgnoresContext : PrefixCache {
  explicit CachePrefixHashIgnoresContext(const CacheShape& shape)
      : PrefixCache(shape, /*page_tokens=*/1),
        tokens_(static_cast<size_t>(shape.sequences)) {}
  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    std::vector<uint64_t>& tokens = tokens_[static_cast<size_t>(step.sequence)];
    tokens.resize(static_cast<size_t>(before));
    for (int64_t j = 0; j < step.tokens; ++j) {
      uint64_t hash = kFirstHash;
      for (int64_t head = 0; head < shape().kv_heads; ++head) {
        hash = hash_row(hash, step.k, head, j, shape().width);
        hash = hash_row(hash, step.v, head, j, shape().value_width);
      }
      tokens.push_back(hash);
    }
    return PrefixCache::append(step, before, why);
  }
  uint64_t hash_of(int64_t sequence, size_t n) override {
    const size_t first = n * static_cast<size_t>(page_tokens());
    return hash_bytes(kFirstHash,
                      &tokens_[static_cast<size_t>(sequence)][first],
                      page_tokens() * static_cast<int64_t>(sizeof(uint64_t)));
  }
  bool is_same(int64_t, int64_t, int64_t) const override { return true; }
  void rearrange(const int64_t* parents) override {
    std::vector<std::vector<uint64_t>> next;
    for (int64_t s = 0; s < shape().sequences; ++s)
      next.push_back(tokens_[static_cast<size_t>(parents[s])]);
    PrefixCache::rearrange(parents);
    tokens_ = std::move(next);
  }
  static uint64_t hash_row(uint64_t hash, const Stored& rows, int64_t head,
                           int64_t j, int64_t width) {
    for (int64_t c = 0; c < width; ++c) {
      const float x = rows.get(0, head, j, c);
      hash = hash_bytes(hash, &x, sizeof(x));
    }
    return hash;
  }

  std::vector<std::vector<uint64_t>> tokens_;  // hashes, of each sequence
};

QKVET_FAULT(cache_prefix_hash_ignores_context,
            kTableFault<&kTurnedTable<TurnedKeys<CachePrefixHashIgnoresContext>,
                                      QKVET_CACHE_ROPE>,
                        &kTurnedPrecision>) = {
    .when = "rope || commands(verb == evict)",
    .cause = "a page is found by the tokens in it, and its keys were rotated "
             "for another place: the hash lacks the page before",
    .fix = "chain hashes, or compare all tokens before a page",
    .source = "textbook, cf. ovg-project/kvcached#446",
    .killed_by = {"cache_agrees_with_history"},
};

struct CachePrefixStaleHash : PrefixCache {
  // Pages of one token, as prefix trees have them.
  explicit CachePrefixStaleHash(const CacheShape& shape)
      : PrefixCache(shape, /*page_tokens=*/1) {}
  void forget(int64_t) override {}
  bool is_same(int64_t, int64_t, int64_t) const override { return true; }
};
QKVET_FAULT(cache_prefix_stale_hash, kCacheFault<CachePrefixStaleHash>) = {
    .when =
        "commands(held < before) || commands(verb == fork || verb == reorder)",
    .cause = "a page keeps the hash of its old content, and pages are compared "
             "by their hash alone",
    .fix = "forget the hash of a page before its first byte changes",
    .source = "vllm-project/vllm#49449",
    .killed_by = {"cache_agrees_with_history"},
};

}  // namespace qkvet::impl
