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

// A page that is filled in part is appended to although a fork shares it.
class CacheSharedPageNotCopied : public PagedCache {
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
QKVET_FAULT(cache_shared_page_not_copied) = {
    .kernel = cache_fault<CacheSharedPageNotCopied>,
    .mechanism =
        "a page that is filled in part is written although another sequence "
        "holds it",
    .symptom = "after a fork one branch sees the tokens of the other",
    .cause =
        "pages are counted, and the count is read when they are freed only",
    .fix = "copy a shared page before the first write to it",
    .source = "textbook (PagedAttention, copy on write)",
    .trigger = "a fork in the middle of a page, and a step on both branches",
    .killed_by = {"cache_forks_are_independent"},
    .when =
        "commands(verb == fork || verb == reorder) && commands(new > 0 && "
        "before > 0)",
};

// A fork and its origin count by one length.
class CacheForkSharesLength : public ContiguousCache {
 public:
  explicit CacheForkSharesLength(const CacheShape& shape)
      : ContiguousCache(shape),
        counters_(static_cast<size_t>(shape.sequences)) {
    std::iota(counters_.begin(), counters_.end(), 0);
  }

 protected:
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
      if (moves) {
        next[s] = parent_stays ? counter(parent) : static_cast<int64_t>(s);
      }
    }
    counters_ = std::move(next);
  }

 private:
  std::vector<int64_t> counters_;  // whose length is that of a sequence
};
QKVET_FAULT(cache_fork_shares_length) = {
    .kernel = cache_fault<CacheForkSharesLength>,
    .mechanism = "a fork copies keys and values, and shares the length",
    .symptom =
        "after a fork each branch sees a gap or stale tokens where the other "
        "one was appended",
    .cause = "a shallow copy of an object whose length is a reference",
    .fix = "copy the length along with the tokens",
    .source = "textbook",
    .trigger = "a fork, and a step on one of the branches",
    .killed_by = {"cache_forks_are_independent"},
    .when = "commands(verb == fork || verb == reorder)",
};

// A reset frees pages that a fork still holds.
class CachePageFreedWhileShared : public PagedCache {
 public:
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
QKVET_FAULT(cache_page_freed_while_shared) = {
    .kernel = cache_fault<CachePageFreedWhileShared>,
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
    .killed_by = {"cache_forks_are_independent"},
    .when =
        "commands(verb == fork || verb == reorder) && commands(verb == "
        "truncate || verb == reset)",
};

// Pages that were given back stay in the table of their old owner.
class CacheStaleTableTail : public PagedCache {
 public:
  // Every token needs a page.
  explicit CacheStaleTableTail(const CacheShape& shape)
      : PagedCache(shape, /*page_tokens=*/1) {}

  void truncate(int64_t sequence, int64_t tokens) override {
    const Table& pages = table(sequence);
    for (int64_t n = pages_for(tokens); n < pages_for(held(sequence)); ++n) {
      pool().give_back(pages[static_cast<size_t>(n)]);
    }
    set_held(sequence, tokens);
  }
};
QKVET_FAULT(cache_stale_table_tail) = {
    .kernel = cache_fault<CacheStaleTableTail>,
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
    .killed_by = {"cache_sequences_are_separate", "cache_agrees_with_history"},
    .when = "commands((verb == truncate || verb == reset) && held < before)",
};

// Slots are counted in pages of 4 tokens and decoded in pages of 8.
// The table that slots are made with has another page size than the kernel that
// writes them. [pages, Hkv, tile, d]; the pages of a sequence lie one behind
// the other.
class CacheSlotOfOtherPageSize : public ContiguousCache {
 public:
  explicit CacheSlotOfOtherPageSize(const CacheShape& shape)
      : ContiguousCache(shape,
                        (shape.capacity + 2 * tile() - 1) & -2 * tile()) {}

 protected:
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

 private:
  int64_t slot(int64_t sequence, int64_t head, int64_t token,
               int64_t page) const {
    return first_slot(sequence, /*head=*/0, /*n=*/0) +
           (token / page * shape().kv_heads + head) * page + token % page;
  }

  Rows gather(const Reading& reading, const Memory& from, int64_t width,
              float* room) const {
    float* to = room;
    for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width) {
      load_rows(shape().storage, from,
                slot(reading.sequence, reading.head, j, tile()), 1, width, to);
    }
    return {room, width, 1};
  }
};
QKVET_FAULT(cache_slot_of_other_page_size) = {
    .kernel = cache_fault<CacheSlotOfOtherPageSize>,
    .mechanism =
        "a slot is a number of a token in pages of 4, and what writes it takes "
        "it for one in pages of 8",
    .symptom =
        "right with one key/value head, where slots are rows; with two, heads "
        "overwrite each other",
    .cause = "the page size is a constant of its own on either side",
    .fix = "pass the page size along with the pages",
    .source = "vllm-project/vllm#47056",
    .trigger = "more than one key/value head",
    .killed_by = {"cache_stores_what_it_is_given", "cache_agrees_with_history"},
    .when = "Hkv > 1 && commands(new > 0)",
    .tiled = true,
};

// Pages with the same tokens are shared wherever they stand: a token is its key
// and value as they come, whatever its position.
class CachePrefixHashIgnoresContext : public PrefixCache {
 public:
  explicit CachePrefixHashIgnoresContext(const CacheShape& shape)
      : PrefixCache(shape, /*page_tokens=*/1),
        tokens_(static_cast<size_t>(shape.sequences)) {}

 protected:
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
    for (int64_t s = 0; s < shape().sequences; ++s) {
      next.push_back(tokens_[static_cast<size_t>(parents[s])]);
    }
    PrefixCache::rearrange(parents);
    tokens_ = std::move(next);
  }

 private:
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

QKVET_FAULT(cache_prefix_hash_ignores_context) = {
    .kernel =
        table_fault<&kTurnedTable<TurnedKeys<CachePrefixHashIgnoresContext>,
                                  QKVET_CACHE_ROPE>,
                    &kTurnedPrecision>,
    .mechanism =
        "a page is found by the tokens in it, and its keys were rotated for "
        "another place",
    .symptom =
        "right where prompts share their beginning; a passage behind other "
        "text gets the keys of another position",
    .cause = "the hash of a page does not include that of the page in front",
    .fix = "chain hashes, or compare what a page stands behind",
    .source = "textbook, cf. ovg-project/kvcached#446",
    .trigger =
        "a rotation, and two pages of the same tokens at different positions",
    .killed_by = {"cache_agrees_with_history"},
    .when = "rope || commands(verb == evict)",
};

// A page that is freed or rewritten is still found by what it held.
class CachePrefixStaleHash : public PrefixCache {
 public:
  // Pages of one token, as prefix trees have them.
  explicit CachePrefixStaleHash(const CacheShape& shape)
      : PrefixCache(shape, /*page_tokens=*/1) {}

 protected:
  void forget(int64_t) override {}
  bool is_same(int64_t, int64_t, int64_t) const override { return true; }
};
QKVET_FAULT(cache_prefix_stale_hash) = {
    .kernel = cache_fault<CachePrefixStaleHash>,
    .mechanism =
        "a page keeps the hash of what it held, and a hash is all that a page "
        "is compared by",
    .symptom =
        "right while prompts only grow; after an edit a later prompt gets "
        "pages of other contents",
    .cause =
        "hashes are listed when a page is full and never struck from the list",
    .fix = "forget the hash of a page before its first byte changes",
    .source = "vllm-project/vllm#49449",
    .trigger =
        "a page that was freed or cut and is full again, and a prompt that "
        "begins as the old one did",
    .killed_by = {"cache_agrees_with_history"},
    .when =
        "commands(held < before) || commands(verb == fork || verb == reorder)",
};

}  // namespace qkvet::impl
